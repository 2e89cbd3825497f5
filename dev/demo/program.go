package demo

import _ "embed"

//go:embed program.py
var program string

// Program is Python that makes twelve calls of the demo toolset, eight of them
// at once and one that fails.
func Program() string { return program }

// File is the name of the file that describes the demo toolset.
const File = "demo.yaml"

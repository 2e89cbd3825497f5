package demo

import (
	"embed"
	"io/fs"
)

//go:embed handbook
var handbook embed.FS

// Handbook is a folder of documents about a cabin, to be searched.
func Handbook() (fs.FS, error) { return fs.Sub(handbook, "handbook") }

// Command portico is the server and everything an operator does with it.
package main

import (
	"os"

	"github.com/portico-run/portico/modules/cli"
)

func main() { os.Exit(cli.Program(os.Args[1:], os.Environ, os.Setenv, os.Stdout, os.Stderr)) }

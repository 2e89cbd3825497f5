// Command portico is the server and everything an operator does with it.
package main

import (
	"context"
	"os"

	"github.com/portico-run/portico/modules/app"
)

func main() {
	os.Exit(app.Main(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

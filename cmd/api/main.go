// Command portico is the server and everything an operator does with it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/portico-run/portico/configs/dotenv"
	"github.com/portico-run/portico/modules/cli"
)

func main() {
	// The file is for this process as a whole: clients of other services, such
	// as that of AWS, read the environment themselves.
	if err := dotenv.Load(".env", os.Environ(), os.Setenv); err != nil {
		fmt.Fprintln(os.Stderr, "portico:", err)
		os.Exit(1)
	}
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

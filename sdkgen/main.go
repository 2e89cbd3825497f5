// Command sdkgen turns the tools a Portico server exports into the Python
// package refly_tools and publishes it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/portico-run/portico/configs/dotenv"
	"github.com/portico-run/portico/sdkgen/cli"
)

func main() {
	if err := dotenv.Load(".env", os.Environ(), os.Setenv); err != nil {
		fmt.Fprintln(os.Stderr, "sdkgen:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

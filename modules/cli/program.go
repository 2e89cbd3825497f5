package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/portico-run/portico/configs/dotenv"
)

// Program is Main for a process in its folder: what .env sets there is set in
// the environment first. The file is for the process as a whole, because clients
// of other services, such as that of AWS, read the environment themselves.
func Program(args []string, environ func() []string, setenv func(name, value string) error, stdout, stderr io.Writer) int {
	if err := dotenv.Load(".env", environ(), setenv); err != nil {
		fmt.Fprintln(stderr, "portico:", err)
		return 1
	}
	return Main(context.Background(), args, environ(), stdout, stderr)
}

package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/portico-run/portico/configs/dotenv"
)

// Program runs the program of this process, in its folder and with its .env, and
// returns its exit code.
func Program() int {
	// The file is for this process as a whole: clients of other services, such
	// as that of AWS, read the environment themselves.
	if err := dotenv.Load(".env", os.Environ(), os.Setenv); err != nil {
		fmt.Fprintln(os.Stderr, "portico:", err)
		return 1
	}
	return Main(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
}

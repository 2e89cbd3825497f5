// Drill backs a server up while it works, destroys everything it has, and restores it
// somewhere else: what docs/operations.md tells operators to do, done for real. It needs
// PORTICO_TEST_POSTGRES_URL and PORTICO_TEST_S3_*; `make drill` provides them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/portico-run/portico/dev/instance"
	"github.com/portico-run/portico/dev/scripted"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "drill:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to be deferred
	}
}

// run makes a folder for the drill, and takes it away.
func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "portico-drill")
	if err != nil {
		return err
	}
	program, err := instance.Build(ctx, ".", dir)
	if err == nil {
		err = drill(ctx, out, program, dir)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// worked is for how long the server works before the backup, and after it.
const worked = 2 * time.Second

func drill(ctx context.Context, out io.Writer, program, dir string) (err error) {
	begun := time.Now()
	say := func(format string, arguments ...any) {
		fmt.Fprintf(out, "%5.1fs  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, arguments...))
	}
	script, err := scripted.Parse([]byte("name: drill\nturns: [{output: [{text: Done.}]}]"))
	if err != nil {
		return err
	}
	model, end, err := scripted.Serve(ctx, "127.0.0.1:0", scripted.New(script))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	settings := []string{"MODEL_NAME=scripted", "MODEL_BASE_URL=http://" + model, "MODEL_API_KEY=none", "TOOL_OUTPUT_CAP=1KiB", "TOOL_LEASE=6s", "TOOLSETS_DIR=configs/toolsets", "PTC_ENABLED=true"}

	first, err := newPlace(ctx, filepath.Join(dir, "first"))
	if err != nil {
		return err
	}
	server, err := first.start(ctx, program, settings)
	if err != nil {
		return errors.Join(err, first.destroy(ctx))
	}
	key, err := server.User(ctx, "anna")
	if err != nil {
		return errors.Join(err, server.Stop(ctx), first.destroy(ctx))
	}
	w := work(ctx, server.URL, key)
	backup := filepath.Join(dir, "backup")
	taken, err := func() (tally, error) {
		if err := w.until(ctx, worked); err != nil {
			return tally{}, err
		}
		say("at work: %s", w.done())
		before := w.done()
		if err := first.dump(ctx, filepath.Join(backup, "database")); err != nil {
			return tally{}, err
		}
		say("backed up the database; meanwhile: %s", w.done())
		n, err := first.copyObjects(ctx, filepath.Join(backup, "objects"))
		if err != nil {
			return tally{}, err
		}
		say("backed up %d objects; meanwhile: %s", n, w.done())
		return before, w.until(ctx, worked)
	}()
	killed := server.Kill()
	w.stop()
	all := w.done()
	err = errors.Join(err, killed, first.destroy(ctx))
	if err != nil {
		return err
	}
	say("killed the server and destroyed its database and its bucket after: %s", all)

	second, err := newPlace(ctx, filepath.Join(dir, "second"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, second.destroy(context.WithoutCancel(ctx))) }()
	if err := second.restore(ctx, filepath.Join(backup, "database")); err != nil {
		return err
	}
	n, err := second.putObjects(ctx, filepath.Join(backup, "objects"))
	if err != nil {
		return err
	}
	say("restored the database and %d objects", n)
	server, err = second.start(ctx, program, settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	say("a server with the same ENCRYPTION_KEY is ready")
	return check(ctx, say, restored{server: server, key: key, before: taken, all: all, file: w.file, url: second.database})
}

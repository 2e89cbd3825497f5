// Drill backs a server up while it works, destroys everything it has, and restores it
// somewhere else: what docs/operations.md tells operators to do, done for real. With the
// path of the last release's program, it has that one and this one work on one database
// instead. It needs PORTICO_TEST_POSTGRES_URL and PORTICO_TEST_S3_*; `make drill` and
// `make test-upgrade` provide them.
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
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "drill:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to be deferred
	}
}

// world is what is around the servers.
type world struct {
	dir      string
	settings []string
}

// run makes a folder for the drill, and takes it away.
func run(ctx context.Context, out io.Writer, arguments []string) error {
	dir, err := os.MkdirTemp("", "portico-drill")
	if err != nil {
		return err
	}
	program, err := instance.Build(ctx, ".", dir)
	if err == nil {
		err = with(ctx, out, dir, func(say func(format string, arguments ...any), w world) error {
			if len(arguments) > 0 {
				return upgrade(ctx, say, [2]string{program, arguments[0]}, w)
			}
			return drill(ctx, say, program, w)
		})
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// with starts what is around the servers, for as long as a drill lasts.
func with(ctx context.Context, out io.Writer, dir string, do func(say func(format string, arguments ...any), w world) error) (err error) {
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
	return do(say, world{dir: dir, settings: []string{
		"MODEL_NAME=scripted", "MODEL_BASE_URL=http://" + model, "MODEL_API_KEY=none", "TOOL_OUTPUT_CAP=1KiB", "TOOL_LEASE=6s", "TOOLSETS_DIR=configs/toolsets", "PTC_ENABLED=true",
	}})
}

// worked is for how long the server works before the backup, and after it.
const worked = 2 * time.Second

func drill(ctx context.Context, say func(format string, arguments ...any), program string, w world) (err error) {
	first, err := newPlace(ctx, filepath.Join(w.dir, "first"))
	if err != nil {
		return err
	}
	server, err := first.start(ctx, program, w.settings)
	if err != nil {
		return errors.Join(err, first.destroy(ctx))
	}
	key, err := server.User(ctx, "anna")
	if err != nil {
		return errors.Join(err, server.Stop(ctx), first.destroy(ctx))
	}
	busy := work(ctx, server.URL, key)
	backup := filepath.Join(w.dir, "backup")
	taken, err := func() (tally, error) {
		if err := busy.until(ctx, worked); err != nil {
			return tally{}, err
		}
		say("at work: %s", busy.done())
		before := busy.done()
		if err := first.dump(ctx, filepath.Join(backup, "database")); err != nil {
			return tally{}, err
		}
		say("backed up the database; meanwhile: %s", busy.done())
		n, err := first.copyObjects(ctx, filepath.Join(backup, "objects"))
		if err != nil {
			return tally{}, err
		}
		say("backed up %d objects; meanwhile: %s", n, busy.done())
		return before, busy.until(ctx, worked)
	}()
	killed := server.Kill()
	busy.stop()
	all := busy.done()
	err = errors.Join(err, killed, first.destroy(ctx))
	if err != nil {
		return err
	}
	say("killed the server and destroyed its database and its bucket after: %s", all)

	second, err := newPlace(ctx, filepath.Join(w.dir, "second"))
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
	server, err = second.start(ctx, program, w.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	say("a server with the same ENCRYPTION_KEY is ready")
	return check(ctx, say, restored{server: server, key: key, before: taken, all: all, file: busy.file, url: second.database})
}

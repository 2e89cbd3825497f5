package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/portico-run/portico/dev/instance"
	"github.com/portico-run/portico/internal/lifecycle"
)

// restored is a server that was restored, and what is known of the one before.
type restored struct {
	server      *instance.Server
	key         string
	before, all tally  // what was done when the backup began, and at the end
	file        string // an address that was stored before
	url         string // of the database
}

// check proves that everything of before the backup is there and works.
func check(ctx context.Context, say func(format string, arguments ...any), r restored) error {
	there, err := r.settled(ctx)
	if err != nil {
		return err
	}
	say("there are %s; at the backup there were %s, at the end %s", there, r.before, r.all)
	if there.programs < r.before.programs || there.calls < r.before.calls || there.files < r.before.files || there.agents < r.before.agents {
		return errors.New("something of before the backup is not there")
	}
	for _, command := range [][]string{{"credit", "verify"}, {"storage", "verify"}} {
		answer, err := r.server.Run(ctx, command...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, answer)
		}
		lines := strings.Split(strings.TrimSpace(string(answer)), "\n")
		say("portico %s: %s", strings.Join(command, " "), lines[len(lines)-1])
	}
	got, err := send(ctx, r.key, r.server.URL+r.file, "application/json", nil)
	if err != nil {
		return err
	}
	if string(got) != content {
		return fmt.Errorf("the file is another one: %s", got)
	}
	if err := call(ctx, r.server.URL, r.key); err != nil {
		return err
	}
	say("the key of before signs in, its file is the same, and a call with a sealed credential succeeds")
	return nil
}

// settled counts what was restored (each program makes one call), once nothing of it seems to go on: what did at the
// backup was lost with its process.
func (r restored) settled(ctx context.Context) (there tally, err error) {
	conn, err := pgx.Connect(ctx, r.url)
	if err != nil {
		return there, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	const patience = time.Minute
	for begun := time.Now(); ; {
		var open int
		err := conn.QueryRow(ctx, "SELECT (SELECT count(*) FROM action_results WHERE status IN ('waiting', 'running')) + (SELECT count(*) FROM tool_call_results WHERE status = 'executing')").Scan(&open)
		if err != nil {
			return there, err
		}
		if open == 0 {
			break
		}
		if time.Since(begun) > patience {
			return there, fmt.Errorf("%d runs and calls do not end", open)
		}
		if err := lifecycle.Pause(ctx, 100*time.Millisecond); err != nil {
			return there, err
		}
	}
	return there, conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM tool_call_results WHERE type = 'ptc' AND status = 'completed'),
		(SELECT count(*) FROM tool_call_results WHERE type = 'standalone' AND status = 'completed'),
		(SELECT count(*) FROM code_files), (SELECT count(*) FROM action_results WHERE type = 'skill')`).
		Scan(&there.programs, &there.calls, &there.files, &there.agents)
}

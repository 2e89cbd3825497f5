package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/portico-run/portico/dev/instance"
)

// benchWAL measures how much write-ahead log a billed call in a run takes.
// Images of whole pages are left out, because how many there are depends on the
// time between two checkpoints and not on the call.
func benchWAL(ctx context.Context, o options) (rows []result, err error) {
	err = besideFloor(ctx, workers, func(p *portico) ([]instance.Caller, error) { return p.inRuns(ctx) }, func(p *portico, _ *floor, floorURL string, who []instance.Caller) (err error) {
		conn, err := pgx.Connect(ctx, p.db)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
		restore, err := withoutPageImages(ctx, conn)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, restore()) }()
		s, err := takeTurns(ctx, o, logged(conn, p.url+executeURL, who), logged(conn, floorURL, who))
		if err != nil {
			return err
		}
		row := bounded("WAL of a billed call in a run, without page images (lean floor)", s[0].median(), 3.5, "%.1f kB")
		row.baseline, row.noise = fmt.Sprintf("%.1f kB", s[1].median()), s[1].spread()
		row.ratio = fmt.Sprintf("%.2f", s[0].over(s[1]).median())
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// withoutPageImages turns them off; the function turns them on again. The server
// is one of `make bench` alone.
func withoutPageImages(ctx context.Context, conn *pgx.Conn) (restore func() error, err error) {
	var was string
	if err := conn.QueryRow(ctx, "SHOW full_page_writes").Scan(&was); err != nil {
		return nil, err
	}
	if was == "off" {
		return func() error { return nil }, nil
	}
	set := func(ctx context.Context, statement string) error {
		_, err := conn.Exec(ctx, statement)
		if err == nil {
			_, err = conn.Exec(ctx, "SELECT pg_reload_conf()")
		}
		if err == nil {
			_, err = conn.Exec(ctx, "CHECKPOINT") // which notices the change
		}
		return err
	}
	return func() error { return set(context.WithoutCancel(ctx), "ALTER SYSTEM RESET full_page_writes") }, set(ctx, "ALTER SYSTEM SET full_page_writes = off")
}

// logged is a side that calls, in kilobytes of log for each call.
func logged(conn *pgx.Conn, url string, who []instance.Caller) sideFunc {
	c := client()
	return func(ctx context.Context, d time.Duration) (float64, error) {
		position := func() (bytes int64, err error) {
			err = conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").Scan(&bytes)
			return bytes, err
		}
		before, err := position()
		if err != nil {
			return 0, err
		}
		done, err := load(ctx, c, url, who, d)
		if err != nil {
			return 0, err
		}
		after, err := position()
		return float64(after-before) / float64(max(done, 1)) / 1000, err
	}
}

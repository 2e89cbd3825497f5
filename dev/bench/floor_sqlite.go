package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/portico-run/portico/dev/instance"
)

// sqliteStore is a floor's store in a SQLite file: one writing connection, as
// durable as the server's, and prepared statements. The driver is the one that
// the server uses, without the layers above it.
type sqliteStore struct {
	db       *sql.DB
	prepared map[string]*sql.Stmt
}

func openSQLiteStore(ctx context.Context, path string) (*sqliteStore, error) {
	db, err := openSQLite(path)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	s := &sqliteStore{db: db, prepared: map[string]*sql.Stmt{}}
	err = s.make(ctx)
	if err != nil {
		err = errors.Join(err, db.Close())
	}
	return s, err
}

func openSQLite(path string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)&_pragma=synchronous(NORMAL)&_txlock=immediate")
}

// The statements of both transactions.
const (
	liteProgram = `SELECT 1 FROM calls WHERE call_id = ? AND uid = ? AND status = 'executing'`
	liteNext    = `UPDATE runs SET event_seq = event_seq + 1 WHERE result_id = ? AND version = 0 AND uid = ? AND status = 'running' RETURNING event_seq`
	liteCall    = `INSERT INTO calls (call_id, uid, result_id, version, ptc_call_id, toolset_id, tool_name, input, output, status, lease_expires_at, created_at, updated_at)
		VALUES (?, ?, ?, 0, ?, ?, ?, ?, '', 'executing', ?, ?, ?)`
	liteEvent = `INSERT INTO events VALUES (?, 0, ?, ?, ?, '{}', ?)`
	liteDone  = `UPDATE calls SET status = 'completed', output = ?, lease_expires_at = NULL, updated_at = ? WHERE call_id = ? AND uid = ? AND status = 'executing'`
	litePaid  = `UPDATE users SET balance = balance - 1 WHERE uid = ? AND balance >= 1`
	liteUsage = `INSERT INTO usages VALUES (?, ?, 1, 1, ?, 0, 'Tool call', ?)`
)

func (s *sqliteStore) make(ctx context.Context) error {
	schema := strings.ReplaceAll(fmt.Sprintf(leanSchema, "integer PRIMARY KEY"), onlyPostgres, "")
	if _, err := s.db.ExecContext(ctx, schema); err != nil {
		return err
	}
	for _, text := range []string{liteProgram, liteNext, liteCall, liteEvent, liteDone, litePaid, liteUsage} {
		statement, err := s.db.PrepareContext(ctx, text) //nolint:sqlclosecheck // closed with the database
		if err != nil {
			return err
		}
		s.prepared[text] = statement
	}
	return nil
}

func (s *sqliteStore) close() error { return s.db.Close() }

func (s *sqliteStore) seed(ctx context.Context, uid string, c instance.Caller) error {
	_, err := s.db.ExecContext(ctx, `INSERT OR IGNORE INTO users VALUES (?, 1000000)`, uid)
	if err == nil {
		_, err = s.db.ExecContext(ctx, `INSERT OR IGNORE INTO runs (result_id, version, uid, status) VALUES (?, 0, ?, 'running')`, c.Run, uid)
	}
	if err == nil {
		_, err = s.db.ExecContext(ctx, `INSERT OR IGNORE INTO calls (call_id, uid, result_id, version, toolset_id, tool_name, input, output, status, created_at, updated_at)
			VALUES (?, ?, ?, 0, 'execute_code', 'execute_code', '{}', '', 'executing', 0, 0)`, c.Program, uid, c.Run)
	}
	return err
}

func (s *sqliteStore) begin(ctx context.Context, w work) error {
	return s.transaction(ctx, func(do func(text string, args ...any) error, next func() (int64, error)) error {
		if err := do(liteCall, w.id, w.uid, w.run, w.program, w.toolset, w.tool, w.input, w.at.Add(15*time.Second), w.at, w.at); err != nil {
			return err
		}
		seq, err := next()
		if err != nil {
			return err
		}
		return do(liteEvent, w.run, seq, "tool_call_start", w.id, w.at)
	}, w)
}

func (s *sqliteStore) settle(ctx context.Context, w work) error {
	return s.transaction(ctx, func(do func(text string, args ...any) error, next func() (int64, error)) error {
		seq, err := next()
		if err == nil {
			err = do(liteDone, w.output, w.at, w.id, w.uid)
		}
		if err == nil {
			err = do(litePaid, w.uid)
		}
		if err == nil {
			err = do(liteUsage, w.id, w.uid, w.run, w.at)
		}
		if err == nil {
			err = do(liteEvent, w.run, seq, "tool_call_end", w.id, w.at)
		}
		return err
	}, w)
}

// transaction runs statements that each must write a row; next gives the number
// of the run's next event.
func (s *sqliteStore) transaction(ctx context.Context, body func(do func(text string, args ...any) error, next func() (int64, error)) error, w work) (err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	do := func(text string, args ...any) error {
		done, err := tx.StmtContext(ctx, s.prepared[text]).ExecContext(ctx, args...) //nolint:sqlclosecheck // closed with the transaction
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, errNotWritten)
		}
		return nil
	}
	next := func() (seq int64, err error) {
		var live int
		err = tx.StmtContext(ctx, s.prepared[liteProgram]).QueryRowContext(ctx, w.program, w.uid).Scan(&live) //nolint:sqlclosecheck // closed with the transaction
		if err != nil {
			return 0, err
		}
		err = tx.StmtContext(ctx, s.prepared[liteNext]).QueryRowContext(ctx, w.run, w.uid).Scan(&seq) //nolint:sqlclosecheck // closed with the transaction
		return seq, err
	}
	if err := body(do, next); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

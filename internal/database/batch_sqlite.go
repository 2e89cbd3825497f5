package database

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/database/lite"
)

// wholeWriter is the connection that writes transactions as a whole to SQLite. It
// writes in the turn of the pool's one writing connection.
type wholeWriter struct {
	uri    string
	mu     sync.Mutex
	conn   *lite.Conn // nil until it is needed
	closed bool
}

var (
	errNotOne = errors.New("a statement was to change or find exactly one row")
	errClosed = errors.New("the database is closed")
)

// sendSQLite runs several transactions as one, and writes how each of them went. They
// take some milliseconds at most: a caller that leaves meanwhile does not stop them.
func (db *DB) sendSQLite(ctx context.Context, batches []*Batch, errs []error) {
	begin := time.Now()
	err := db.inTurn(ctx, func() error { return db.writer.write(batches, errs) })
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	n, first := 0, ""
	for _, b := range batches {
		n += len(b.first) + len(b.last)
		if first == "" && len(b.first) > 0 {
			first = b.first[0].sql
		}
	}
	db.logBatch(ctx, n, first, time.Since(begin), err)
}

// inTurn keeps the pool from writing meanwhile: another connection would ask again and
// again whether the file is free.
func (db *DB) inTurn(ctx context.Context, fn func() error) error {
	pool, err := db.write.DB()
	if err != nil {
		return fmt.Errorf("database pool: %w", err)
	}
	turn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = turn.Close() }() // goes back to the pool
	return fn()
}

// write commits all transactions together. Savepoints keep what they may have to take
// back, which costs more than what is seldom refused: they are made when something was.
func (w *wholeWriter) write(batches []*Batch, errs []error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.open(); err != nil {
		return err
	}
	err := w.commit(func() error {
		for _, b := range batches {
			if err := w.run(b); err != nil {
				return err
			}
		}
		return nil
	})
	if len(batches) == 1 || !refused(err) {
		return err
	}
	return w.commit(func() error {
		for i, b := range batches {
			if err := w.runApart(b, &errs[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *wholeWriter) open() (err error) {
	switch {
	case w.closed:
		return errClosed
	case w.conn != nil:
		return nil
	}
	w.conn, err = lite.Open(w.uri, busyTimeout, "PRAGMA foreign_keys = 1", "PRAGMA synchronous = NORMAL")
	return err
}

func (w *wholeWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.drop()
}

func (w *wholeWriter) drop() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

// commit runs fn in a transaction.
func (w *wholeWriter) commit(fn func() error) error {
	_, err := w.conn.Do("BEGIN IMMEDIATE")
	if err == nil {
		err = fn()
	}
	if err == nil {
		_, err = w.conn.Do("COMMIT")
	}
	if err == nil || !w.conn.InTransaction() {
		return err
	}
	if _, e := w.conn.Do("ROLLBACK"); e != nil {
		w.drop() // takes it back
	}
	return err
}

// runApart runs a transaction within a larger one, which goes on without it where it
// is refused.
func (w *wholeWriter) runApart(b *Batch, outcome *error) error {
	if _, err := w.conn.Do("SAVEPOINT apart"); err != nil {
		return err
	}
	if *outcome = w.run(b); *outcome != nil {
		if !refused(*outcome) {
			return *outcome
		}
		if _, err := w.conn.Do("ROLLBACK TO apart"); err != nil {
			return err
		}
	}
	_, err := w.conn.Do("RELEASE apart")
	return err
}

func (w *wholeWriter) run(b *Batch) error {
	for _, statements := range [][]statement{b.first, b.last} {
		for _, s := range statements {
			n, err := w.conn.Do(s.sql, s.args...)
			if err == nil && s.one && n != 1 {
				err = errNotOne
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Batch gathers the statements of a transaction that runs as a whole: PostgreSQL
// gets it in one round trip, its commit included, and SQLite in one turn of the
// writing connection, as statements that are prepared already. Nothing is read on the
// way: a statement that depends on what it finds fails where it finds something else,
// and with it the transaction.
type Batch struct {
	dialect     Dialect
	first, last []statement
}

type statement struct {
	sql  string
	args []any
	one  bool   // must change or find exactly one row
	row  string // of one that comes last, what it changes
}

// Dialect says for which database the statements are written.
func (b *Batch) Dialect() Dialect { return b.dialect }

// Queue adds a statement that may change any number of rows.
func (b *Batch) Queue(sql string, args ...any) {
	b.first = append(b.first, statement{sql: sql, args: args})
}

// One adds a statement that must change or find exactly one row. For PostgreSQL it
// begins with WITH, and calls those rows "one":
//
//	WITH one AS (UPDATE … RETURNING 1)
func (b *Batch) One(sql string, args ...any) {
	b.first = append(b.first, statement{sql: sql, args: args, one: true})
}

// Last is One for a statement that comes after those of every transaction that is
// committed together with this one: it holds a row that many wait for, which it
// names. On SQLite, where nobody holds a row, it comes after those of its own
// transaction.
func (b *Batch) Last(row, sql string, args ...any) {
	b.last = append(b.last, statement{sql: sql, args: args, one: true, row: row})
}

// PostgreSQL has no statement that fails for too few rows, but divides by none of
// them.
const exactlyOne = " SELECT 1 / (count(*) = 1)::int FROM one"

// ErrOneByOne is what a query inside a transaction says that is sent as a whole. Who
// knows that the transaction needs answers on the way returns it before.
var ErrOneByOne = errors.New("this transaction needs answers on the way")

// oneByOneFor is how long a user's transactions are not sent as a whole after one
// that could not be: what was in its way is seldom gone at once.
const oneByOneFor = time.Second

// AtOnce is InTx for a transaction that ordinarily needs no answer before its
// end: it is sent as a whole if it can be. fn runs a second time, in InTx, when it
// made a query, when a row was not as it is ordinarily, and when the database refused
// a statement. who groups what is alike and changes the same rows; a user's id.
// Transactions of one group that are ready together are committed together; on
// SQLite, which has one writer, those of all groups are.
func (db *DB) AtOnce(ctx context.Context, who string, fn func(tx Tx) error) error {
	if db.oneByOne || !db.whole.may(who) {
		return db.InTx(ctx, fn)
	}
	var (
		topics []string
		batch  = Batch{dialect: db.dialect}
	)
	g := db.write.WithContext(ctx)
	_ = g.AddError(ErrOneByOne) // every query through it fails with that
	err := fn(Tx{Handle: Handle{g: g, dialect: db.dialect}, after: &topics, batch: &batch})
	if err == nil {
		err = db.commit(ctx, db.groupOf(who), &batch)
	}
	switch {
	case err == nil:
		db.tell(topics)
		return nil
	case errors.Is(err, ErrOneByOne): // nothing was sent
		return db.InTx(ctx, fn)
	case refused(err):
		db.whole.not(who)
		return db.InTx(ctx, fn)
	}
	return err
}

func (db *DB) groupOf(who string) string {
	if db.dialect == SQLite {
		return ""
	}
	return who
}

// send runs several transactions as one, and says of each how it went.
func (db *DB) send(ctx context.Context, batches ...*Batch) []error {
	errs := make([]error, len(batches))
	if db.dialect == SQLite {
		db.sendSQLite(ctx, batches, errs)
		return errs
	}
	err := db.sendPostgres(ctx, batches[0].statements(batches[1:]...))
	if len(batches) > 1 && refused(err) {
		err = errAlone
	}
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// sendPostgres runs statements as one transaction: PostgreSQL commits what comes
// before a Sync message, of which a batch has one, at its end.
func (db *DB) sendPostgres(ctx context.Context, statements *pgx.Batch) (err error) {
	if statements.Len() == 0 {
		return nil
	}
	pool, err := db.write.DB()
	if err != nil {
		return fmt.Errorf("database pool: %w", err)
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // goes back to the pool, which drops a dead one
	begin := time.Now()
	err = conn.Raw(func(c any) error {
		own, ok := c.(*stdlib.Conn)
		if !ok {
			return driver.ErrSkip
		}
		results := own.Conn().SendBatch(ctx, statements)
		for range statements.Len() {
			if _, err := results.Exec(); err != nil {
				_ = results.Close() // fails as well
				return err
			}
		}
		return results.Close()
	})
	db.logBatch(ctx, statements.Len(), statements.QueuedQueries[0].SQL, time.Since(begin), err)
	return err
}

func (db *DB) logBatch(ctx context.Context, statements int, first string, took time.Duration, err error) {
	level := LevelStatement
	if took >= slow {
		level = slog.LevelWarn
	}
	if db.log.Enabled(ctx, level) {
		db.log.Log(ctx, level, "statements", "count", statements, "first", first, "took", took, "error", err)
	}
}

// Batch is where the statements of the transaction go when it is sent as a whole,
// by AtOnce; nil otherwise.
func (tx Tx) Batch() *Batch { return tx.batch }

// wholes remembers whose transactions could not be sent as a whole.
type wholes struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// maxWholes bounds that memory; what is forgotten is tried again.
const maxWholes = 10_000

func (w *wholes) may(who string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !time.Now().Before(w.until[who])
}

func (w *wholes) not(who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.until == nil || len(w.until) >= maxWholes {
		w.until = map[string]time.Time{}
	}
	w.until[who] = time.Now().Add(oneByOneFor)
}

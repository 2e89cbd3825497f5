package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Channel is the PostgreSQL notification channel that carries topics.
const Channel = "portico_wake"

// ErrNotFound is what a query for one row returns when there is none.
var ErrNotFound = gorm.ErrRecordNotFound

// Handle runs queries, inside a transaction or outside one; a repository
// cannot tell and need not.
type Handle struct {
	g       *gorm.DB
	dialect Dialect
}

// Tx is a Handle inside a transaction. Repositories write through it only.
type Tx struct {
	Handle
	after *[]string
	batch *Batch
}

// Read returns a handle for queries outside a transaction.
func (db *DB) Read(ctx context.Context) Handle {
	return Handle{g: db.read.WithContext(ctx), dialect: db.dialect}
}

// InTx runs fn in one transaction: everything it wrote is committed when it
// returns nil, and nothing otherwise. Never call InTx inside fn: with one
// connection it waits for itself.
func (db *DB) InTx(ctx context.Context, fn func(tx Tx) error) error {
	var topics []string
	err := db.write.WithContext(ctx).Transaction(func(g *gorm.DB) error {
		return fn(Tx{Handle: Handle{g: g, dialect: db.dialect}, after: &topics})
	})
	if err != nil {
		return err
	}
	db.tell(topics)
	return nil
}

// Tell wakes the readers of a topic, in all processes, about what is in no row.
func (db *DB) Tell(topic string) { db.tell([]string{topic}) }

// tell wakes readers after a commit, those in other processes some milliseconds
// later.
func (db *DB) tell(topics []string) {
	for _, t := range topics {
		db.notify(t)
	}
	if db.others != nil && len(topics) > 0 {
		db.others.add(topics)
	}
}

// InSnapshot runs fn over one consistent state of the database: every query
// in it sees the same commits.
func (db *DB) InSnapshot(ctx context.Context, fn func(h Handle) error) error {
	return db.read.WithContext(ctx).Transaction(func(g *gorm.DB) error {
		return fn(Handle{g: g, dialect: db.dialect})
	}, &sql.TxOptions{Isolation: db.snapshotLevel(), ReadOnly: db.dialect == Postgres})
}

// snapshotLevel is what makes a transaction see one state. SQLite always does
// and its driver accepts no other level than the default.
func (db *DB) snapshotLevel() sql.IsolationLevel {
	if db.dialect == Postgres {
		return sql.LevelRepeatableRead
	}
	return sql.LevelDefault
}

// Dialect returns the kind of database behind the handle.
func (h Handle) Dialect() Dialect { return h.dialect }

// Scoped begins a query over one user's rows. It is the way a repository
// reads or changes a table with a uid column.
func Scoped(h Handle, uid string) *gorm.DB {
	return h.g.Session(&gorm.Session{}).Where("uid = ?", uid)
}

// ScopedFound is Scoped for a query that finds its rows by another column, such as
// a run's id. It keeps the indexes that begin with the user out of the plan, by
// which a database would read all rows of that user.
func ScopedFound(h Handle, uid string) *gorm.DB {
	return h.g.Session(&gorm.Session{}).Where("uid || '' = ?", uid)
}

// Unscoped begins a query over every user's rows, for tables without a user
// and for the few system jobs the architecture test names.
func Unscoped(h Handle) *gorm.DB { return h.g.Session(&gorm.Session{}) }

// Lock makes a query hold the rows it reads until the transaction ends. SQLite
// needs no lock: its writing transactions run one after the other.
func Lock(g *gorm.DB) *gorm.DB {
	return g.Clauses(clause.Locking{Strength: "NO KEY UPDATE"})
}

// maxTopic is what a notification of PostgreSQL carries at most, in bytes.
const maxTopic = 7999

// Notify tells every reader that waits for the topic, in any process, once
// the transaction has committed. A topic is text without NUL, of at most 7999
// bytes.
func (tx Tx) Notify(topic string) error {
	// One that PostgreSQL refuses would hold up those it is sent with.
	if len(topic) > maxTopic || !utf8.ValidString(topic) || strings.ContainsRune(topic, 0) {
		return fmt.Errorf("the topic of a wake-up is too long or not text: %.100q", topic)
	}
	*tx.after = append(*tx.after, topic)
	return nil
}

// MustAffect returns an error when a statement failed or did not change
// exactly one row; absent is returned in the second case.
func MustAffect(g *gorm.DB, absent error) error {
	switch {
	case g.Error != nil:
		return g.Error
	case g.RowsAffected == 0:
		return absent
	case g.RowsAffected > 1:
		return fmt.Errorf("one row was to change, %d did", g.RowsAffected)
	}
	return nil
}

// IsDuplicate reports whether err says that some unique constraint refused
// a row.
func IsDuplicate(err error) bool { return errors.Is(err, gorm.ErrDuplicatedKey) }

// Package database is the door to PostgreSQL and SQLite.
//
// Repositories get a Handle for reading and a Tx for writing; which database
// is behind them is visible only here. SQLite has one writing connection and
// a pool of readers, PostgreSQL one pool.
package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/glebarez/sqlite"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

// Dialect names the kind of database.
type Dialect string

// The supported databases.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// Config says which database to open.
type Config struct {
	// URL is "postgres://…" or "sqlite:PATH".
	URL string
	// Direct is the address of the same PostgreSQL where URL is that of a pooler which
	// gives out connections by the transaction, such as PgBouncer; empty for none.
	Direct string
	// MaxConnections bounds the pool of PostgreSQL connections, and of SQLite
	// readers. PostgreSQL has one more, which tells other processes of commits.
	MaxConnections int
	// Notify is told the topics of a transaction after its commit, in this
	// process only and without delay; every other process is told by PostgreSQL
	// some milliseconds later.
	Notify func(topic string)
	Logger *slog.Logger
	// Wall is the clock of this machine; nil is the system's.
	Wall func() time.Time
	// OneByOne sends no transaction as a whole: the way that AtOnce is compared with.
	OneByOne bool
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	url     string
	direct  string // of PostgreSQL itself
	dialect Dialect
	write   *gorm.DB
	read    *gorm.DB
	notify  func(topic string)
	others  *notifier // nil where there are no other processes
	whole   wholes
	groups  groups
	writer  wholeWriter // of SQLite
	log     *slog.Logger

	oneByOne bool

	wall    func() time.Time
	reading atomic.Pointer[moment] // of the database's clock; nil on SQLite
}

const (
	connectionLifetime = 30 * time.Minute
	// busyTimeout is how long a SQLite connection waits for the write lock; a
	// transaction here is a few milliseconds.
	busyTimeout = 10 * time.Second
)

// DialectOf reads the kind of database out of a URL.
func DialectOf(url string) (Dialect, error) {
	switch {
	case strings.HasPrefix(url, "postgres://"), strings.HasPrefix(url, "postgresql://"):
		return Postgres, nil
	case strings.HasPrefix(url, "sqlite:") && len(url) > len("sqlite:"):
		return SQLite, nil
	}
	return "", errors.New(`the database URL must start with "postgres://" or be "sqlite:PATH"`)
}

// Open connects to the database and checks that it answers. It does not
// migrate.
func Open(ctx context.Context, c Config) (*DB, error) {
	dialect, err := DialectOf(c.URL)
	if err != nil {
		return nil, err
	}
	if c.Notify == nil {
		c.Notify = func(string) {}
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	db := &DB{url: c.URL, direct: cmp.Or(c.Direct, c.URL), dialect: dialect, notify: c.Notify, log: c.Logger, oneByOne: c.OneByOne, wall: c.Wall}
	if dialect == Postgres {
		err = db.openPostgres(c)
	} else {
		err = db.openSQLite(c)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := errors.Join(db.Ping(ctx), db.Synchronize(ctx)); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if dialect == Postgres {
		db.others = startNotifier(ctx, db.direct, c.Logger)
	}
	return db, nil
}

func (db *DB) openPostgres(c Config) error {
	config := db.gormConfig(c.Logger)
	// The driver prepares each statement once for each connection. Preparing
	// here as well would prepare and forget it in every transaction.
	config.PrepareStmt = false
	dialector := postgres.Open(c.URL)
	if c.Direct != "" {
		pooled, err := pgx.ParseConfig(c.URL)
		if err != nil {
			return fmt.Errorf("the database URL: %w", err)
		}
		// A statement that is prepared is another connection's in the next transaction.
		pooled.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		dialector = postgres.New(postgres.Config{Conn: stdlib.OpenDB(*pooled)})
	}
	g, err := gorm.Open(dialector, config)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	db.write, db.read = g, g
	return setPool(g, c.MaxConnections)
}

func (db *DB) openSQLite(c Config) error {
	path := strings.TrimPrefix(c.URL, "sqlite:")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create the database folder: %w", err)
	}
	db.writer.uri = "file:" + path
	dsn := db.writer.uri + fmt.Sprintf("?_pragma=busy_timeout(%d)", busyTimeout.Milliseconds()) +
		"&_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)&_pragma=synchronous(NORMAL)"
	var err error
	// A writing transaction takes the lock when it begins: one that starts as
	// a reader and becomes a writer later would fail instead of waiting.
	if db.write, err = gorm.Open(sqlite.Open(dsn+"&_txlock=immediate"), db.gormConfig(c.Logger)); err != nil {
		return fmt.Errorf("open SQLite: %w", err)
	}
	if err := setPool(db.write, 1); err != nil {
		return err
	}
	if db.read, err = gorm.Open(sqlite.Open(dsn+"&_pragma=query_only(1)"), db.gormConfig(c.Logger)); err != nil {
		return fmt.Errorf("open SQLite for reading: %w", err)
	}
	return setPool(db.read, c.MaxConnections)
}

func (db *DB) gormConfig(log *slog.Logger) *gorm.Config {
	return &gorm.Config{
		TranslateError:         true,
		SkipDefaultTransaction: true,
		PrepareStmt:            true,
		NowFunc:                db.Now,
		Logger:                 statementLog{log},
	}
}

func setPool(g *gorm.DB, connections int) error {
	pool, err := g.DB()
	if err != nil {
		return fmt.Errorf("database pool: %w", err)
	}
	connections = max(connections, 1)
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	pool.SetConnMaxLifetime(connectionLifetime)
	return nil
}

// Now is the present moment in the form both databases keep: UTC, in
// microseconds.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Dialect returns the kind of database.
func (db *DB) Dialect() Dialect { return db.dialect }

// URL returns the address the database was opened with, password included.
func (db *DB) URL() string { return db.url }

// DirectURL is the address of PostgreSQL itself, for what a pooler does not carry.
func (db *DB) DirectURL() string { return db.direct }

// Ping fails when the database does not answer.
func (db *DB) Ping(ctx context.Context) error {
	for _, g := range []*gorm.DB{db.write, db.read} {
		pool, err := g.DB()
		if err == nil {
			err = pool.PingContext(ctx)
		}
		if err != nil {
			return fmt.Errorf("the database does not answer: %w", err)
		}
	}
	return nil
}

// Close tells other processes what they were not told yet, and releases every
// connection.
func (db *DB) Close() error {
	if db.others != nil {
		db.others.close()
	}
	db.writer.close()
	var errs []error
	for i, g := range []*gorm.DB{db.write, db.read} {
		if g == nil || (i == 1 && g == db.write) {
			continue
		}
		pool, err := g.DB()
		if err == nil {
			err = pool.Close()
		}
		if prepared, is := g.ConnPool.(*gorm.PreparedStmtDB); is {
			prepared.Close() // statements hold the contexts that they were prepared in
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/migrations"
)

// ErrBehind says that the database lacks migrations.
var ErrBehind = errors.New("the database lacks migrations of this version; apply them with `portico migrate up` of the same version, or start with PORTICO_MIGRATE=true")

// Step is one migration and whether the database has it.
type Step struct {
	Version int64
	Name    string
	Applied bool
}

// Migrate applies every missing step. Any number of processes may call it at
// once; one works, the others wait for it.
func (db *DB) Migrate(ctx context.Context) (applied int, err error) {
	err = db.migrating(func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		applied = len(results)
		return err
	})
	return applied, err
}

// MigrateDown takes the newest applied step back, or all of them.
func (db *DB) MigrateDown(ctx context.Context, all bool) (reverted int, err error) {
	err = db.migrating(func(p *goose.Provider) error {
		if all {
			results, err := p.DownTo(ctx, 0)
			reverted = len(results)
			return err
		}
		if v, err := p.GetDBVersion(ctx); err != nil || v == 0 {
			return err
		}
		reverted = 1
		_, err := p.Down(ctx)
		return err
	})
	return reverted, err
}

// Steps lists the migrations in order.
func (db *DB) Steps(ctx context.Context) ([]Step, error) {
	var steps []Step
	err := db.migrating(func(p *goose.Provider) error {
		states, err := p.Status(ctx)
		for _, s := range states {
			steps = append(steps, Step{
				Version: s.Source.Version, Name: strings.TrimSuffix(path.Base(s.Source.Path), ".sql"), Applied: s.State == goose.StateApplied,
			})
		}
		return err
	})
	return steps, err
}

// Ready fails where the database lacks a migration that this program needs. It changes
// nothing, and asks no other process to wait. A database that has more, from a newer
// program, is good: no migration takes away what the program before it uses.
func (db *DB) Ready(ctx context.Context) error {
	pool, err := db.read.DB()
	if err != nil {
		return fmt.Errorf("database pool: %w", err)
	}
	p, err := db.provider(pool)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	applied := map[int64]bool{}
	if h := db.Read(ctx); h.g.Migrator().HasTable(goose.DefaultTablename) {
		var versions []int64
		if err := h.g.Raw("SELECT version_id FROM " + goose.DefaultTablename + " WHERE is_applied").Scan(&versions).Error; err != nil {
			return fmt.Errorf("which migrations the database has: %w", err)
		}
		for _, v := range versions {
			applied[v] = true
		}
	}
	var missing []string
	for _, s := range p.ListSources() {
		if !applied[s.Version] {
			missing = append(missing, strings.TrimSuffix(path.Base(s.Path), ".sql"))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %s", ErrBehind, strings.Join(missing, ", "))
	}
	return nil
}

// migrating runs fn while no other process migrates this database.
func (db *DB) migrating(fn func(*goose.Provider) error) (err error) {
	pool, err := db.write.DB()
	if err != nil {
		return fmt.Errorf("database pool: %w", err)
	}
	if db.direct != db.url { // the lock is a session's
		if pool, err = sql.Open("pgx", db.direct); err != nil {
			return fmt.Errorf("connect to PostgreSQL: %w", err)
		}
		defer func() { err = errors.Join(err, pool.Close()) }()
	}
	if db.dialect == SQLite {
		unlock, err := lockFile(strings.TrimPrefix(db.url, "sqlite:") + ".migrate.lock")
		if err != nil {
			return err
		}
		defer unlock()
	}
	p, err := db.provider(pool)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	if err := fn(p); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func (db *DB) provider(pool *sql.DB) (*goose.Provider, error) {
	var (
		dialect = goose.DialectSQLite3
		files   fs.FS
		opts    []goose.ProviderOption
		err     error
	)
	if db.dialect == Postgres {
		dialect = goose.DialectPostgres
		locker, lockErr := lock.NewPostgresSessionLocker()
		if lockErr != nil {
			return nil, lockErr
		}
		opts = append(opts, goose.WithSessionLocker(locker))
		files, err = migrations.Postgres()
	} else {
		files, err = migrations.SQLite()
	}
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(dialect, pool, files, opts...)
}

// lockFile takes an exclusive lock that the kernel releases when the process
// dies.
func lockFile(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("migration lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("migration lock: %w", err)
	}
	return func() { _ = f.Close() }, nil
}

package database

import (
	"context"
	"fmt"
	"time"
)

// moment is one moment by two clocks: that of the database, and this process's own,
// of which only what passed since is used.
type moment struct{ theirs, ours time.Time }

// maxReading is how long a reading of the database's clock may take to be used: it is
// wrong by half of that at most.
const maxReading = time.Second

// Now is the present moment by the clock of the database, in UTC and microseconds.
// All processes on one PostgreSQL agree on it, whatever their machines' clocks say. It
// asks nobody: it is the last reading of Synchronize and the time that has passed
// since. SQLite has the clock of its only machine.
func (db *DB) Now() time.Time {
	now := db.wall()
	if m := db.reading.Load(); m != nil {
		now = m.theirs.Add(now.Sub(m.ours))
	}
	return now.UTC().Truncate(time.Microsecond)
}

// Synchronize reads the clock of the database. A reading that took long is not used;
// the one before stays.
func (db *DB) Synchronize(ctx context.Context) error {
	if db.dialect != Postgres {
		return nil
	}
	begin := db.wall()
	var theirs time.Time
	if err := db.read.WithContext(ctx).Raw("SELECT clock_timestamp()").Scan(&theirs).Error; err != nil {
		return fmt.Errorf("read the database's clock: %w", err)
	}
	took := db.wall().Sub(begin)
	if took > maxReading && db.reading.Load() != nil {
		return nil
	}
	db.reading.Store(&moment{theirs: theirs, ours: begin.Add(took / 2)})
	return nil
}

package configs

import "time"

// Retention is how long what has ended is kept; 0 is for ever.
type Retention struct {
	// Runs are runs with their messages, events, calls and stored results.
	Runs time.Duration `key:"runs" env:"RETENTION_RUNS"`
	// RunEvents are the events of runs, but for the last of each.
	RunEvents time.Duration `key:"runEvents" env:"RETENTION_RUN_EVENTS"`
	// Calls are records of calls outside of runs, with stored results.
	Calls time.Duration `key:"calls" env:"RETENTION_CALLS"`
	// Audit is the audit log.
	Audit time.Duration `key:"audit" env:"RETENTION_AUDIT"`
}

func (l *loader) validateRetention() {
	r := &l.config.Retention
	for _, keep := range []*time.Duration{&r.Runs, &r.RunEvents, &r.Calls, &r.Audit} {
		l.must(keep, *keep == 0 || *keep >= 24*time.Hour, "must be 0, for ever, or at least 1d")
	}
}

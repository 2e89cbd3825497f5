package app

import (
	"time"

	"github.com/portico-run/portico/internal/telemetry"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/run/retention"
	"github.com/portico-run/portico/modules/run/retention/holdings"
)

// retain wires what deletes what is kept no longer.
func (a *App) retain() {
	c := a.Config.Retention
	a.Holdings = holdings.New(holdings.Deps{DB: a.DB, Objects: a.Objects})
	a.Retention = retention.New(retention.Deps{
		DB: a.DB, Objects: a.Objects, Output: record.OutputKey, Deleted: run.Deleted, Observer: watchRetention(a.Metrics), Logger: a.Logger,
		Settings: retention.Settings{Runs: c.Runs, RunEvents: c.RunEvents, Calls: c.Calls, Audit: c.Audit},
	})
}

// retained counts what the keeper deletes.
type retained struct {
	gone        func(n int, values ...string)
	oldest, due func(value float64, values ...string)
}

func watchRetention(m *telemetry.Metrics) retained {
	r := retained{
		gone:   m.Count("portico_retention_deleted_total", "Rows that were deleted because they are kept no longer, by table.", "table"),
		oldest: m.Gauges("portico_retention_oldest_seconds", "Age of the oldest that has ended, by table.", "table"),
		due:    m.Gauges("portico_retention_due_seconds", "For how long the oldest has been due to be deleted, by table.", "table"),
	}
	for _, w := range retention.Words() {
		if w.Setting != "" { // there before anything happens
			r.Gone(w.Table, 0)
			r.Oldest(w.Table, 0, 0)
		}
	}
	return r
}

// Gone implements retention.Observer.
func (r retained) Gone(table string, rows int) { r.gone(rows, table) }

// Oldest implements retention.Observer.
func (r retained) Oldest(table string, age, due time.Duration) {
	r.oldest(age.Seconds(), table)
	r.due(due.Seconds(), table)
}

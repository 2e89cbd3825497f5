package record

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/run"
)

// CheckRows compares the row struct with the schema.
func CheckRows(t *testing.T, db *database.DB) {
	t.Helper()
	databasetest.CheckRow(t, db, callRow{})
	databasetest.CheckRow(t, db, executingRow{})
}

// AskEverything makes every query of the repository that looks for calls: of a
// user, in a run, with a program and its call.
func AskEverything(t *testing.T, tx database.Tx, r run.Ref, program, call string) {
	t.Helper()
	var rows repository
	version, now := r.Version, database.Now()
	queries := map[string]func() error{
		"byID":  func() error { _, err := rows.byID(tx.Handle, r.UID, call); return err },
		"byIDs": func() error { _, err := rows.byIDs(tx.Handle, r.UID, []string{call, program}); return err },
		"lock":  func() error { _, err := rows.lock(tx, r.UID, program); return err },
		"byKey": func() error { _, _, err := rows.byKey(tx.Handle, r.UID, "key of "+call); return err },
		"sizes": func() error {
			_, _, err := rows.sizes(tx.Handle, r.UID, Filter{}, database.Window{Limit: 20})
			return err
		},
		"sizes of a run": func() error {
			_, _, err := rows.sizes(tx.Handle, r.UID, Filter{ResultID: r.ResultID, Version: &version}, database.Window{Limit: 20})
			return err
		},
		"sizes of a program": func() error {
			_, _, err := rows.sizes(tx.Handle, r.UID, Filter{ParentID: program}, database.Window{Limit: 20})
			return err
		},
		"byPKs": func() error { _, err := rows.byPKs(tx.Handle, r.UID, []int64{51, 99}); return err },
		"list of summaries": func() error {
			_, _, err := rows.listSummaries(tx.Handle, r.UID, Filter{ResultID: r.ResultID, Version: &version, Line: 3}, database.Window{Limit: 20})
			return err
		},
		"summaries": func() error { _, err := rows.summaries(tx.Handle, r.UID, []string{call, program}); return err },
		"programs":  func() error { _, _, err := rows.programs(tx.Handle, r, database.Window{Limit: 20}); return err },
		"countChildren": func() error {
			_, err := rows.countChildren(tx.Handle, r.UID, []string{program})
			return err
		},
		"lastSuccess": func() error {
			_, err := rows.lastSuccess(tx.Handle, r.UID, "demo", "list_cities", lookBack)
			return err
		},
		"children":    func() error { _, err := rows.children(tx.Handle, r.UID, program); return err },
		"inRun":       func() error { _, err := rows.inRun(tx.Handle, r); return err },
		"outside":     func() error { _, err := rows.outside(tx.Handle, r.UID); return err },
		"lockOutside": func() error { _, err := rows.lockOutside(tx, r, ""); return err },
		"seal":        func() error { return rows.seal(tx, r, program) },
		"abandon":     func() error { _, err := rows.abandon(tx, "another pod", now, 100); return err },
		"expired": func() error {
			_, err := rows.expired(tx.Handle, over{now: now, owner: "pod", idle: now.Add(-time.Minute)}, 100)
			return err
		},
	}
	for name, query := range queries {
		// The planner knows the values at first, and later plans without them.
		for range 8 {
			require.NoError(t, query(), name)
		}
	}
}

// LockForEnd holds a call's row, as what ends a program does first.
func (s *Service) LockForEnd(tx database.Tx, uid, callID string) (Call, error) {
	return s.rows.lock(tx, uid, callID)
}

// Statements are those sent as a whole that look for one call, by what they do,
// with the number of their arguments.
func Statements() map[string]int { return map[string]int{finish: 7, join: 5} }

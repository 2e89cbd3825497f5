package report_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/report"
)

var anna, ben = actor.Actor{UID: "u-anna"}, actor.Actor{UID: "u-ben"}

const credit = money.Credit

func exec(t *testing.T, db *database.DB, sql string, args ...any) {
	t.Helper()
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql, args...).Error }))
}

// books are Anna's after two calls, of which one is free, and an answer of a
// model.
func books(t *testing.T, db *database.DB) *report.Service {
	t.Helper()
	m := billing.New(billing.Deps{DB: db, FreeToolsets: []string{"gift"}})
	exec(t, db, `INSERT INTO users (uid, name) VALUES ('u-anna', 'anna'), ('u-ben', 'ben')`)
	exec(t, db, `INSERT INTO action_results (result_id, uid, target_type, target_id) VALUES ('ar-1', 'u-anna', 'canvas', 'c-1')`)
	require.NoError(t, m.Service.Grant(t.Context(), anna.UID, billing.Recharge{ID: "r", Amount: 4 * credit, ExpiresAt: database.Now().Add(time.Hour)}))
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
		for id, toolset := range map[string]string{"call-1": "demo", "call-2": "gift"} {
			err := database.Unscoped(tx.Handle).Exec(`INSERT INTO tool_call_results (result_id, call_id, uid, toolset_id, tool_name, input, output)
				VALUES ('ar-1', ?, 'u-anna', ?, 'x', '{}', '')`, id, toolset).Error
			if err != nil {
				return err
			}
			_, err = m.Service.Charge(t.Context(), tx, billing.Charge{CallID: id, UID: anna.UID, ResultID: "ar-1", Toolset: toolset, Tool: "x", Global: true, Price: 2 * credit})
			if err != nil {
				return err
			}
		}
		return m.Service.ChargeModel(t.Context(), tx, billing.ModelCharge{UID: anna.UID, ResultID: "ar-2", Model: "m", Price: 5 * credit})
	}))
	return m.Reports
}

func TestAReportAddsUpByToolAndModel(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := books(t, db)
		model := report.Line{Type: "model_call", Model: "m", Calls: 1, Total: 5 * credit, Charged: 5 * credit}
		demo := report.Line{Type: "tool_call", Toolset: "demo", Tool: "x", Calls: 1, Total: 2 * credit, Charged: 2 * credit}
		gift := report.Line{Type: "tool_call", Toolset: "gift", Tool: "x", Calls: 1, Total: 2 * credit}
		all := report.Statement{Total: 9 * credit, Charged: 7 * credit, Lines: []report.Line{model, demo, gift}}
		ofRun := report.Statement{Total: 4 * credit, Charged: 2 * credit, Lines: []report.Line{demo, gift}}
		nothing, now, one := report.Statement{Lines: []report.Line{}}, database.Now(), 1
		for name, c := range map[string]struct {
			want report.Statement
			read func() (report.Statement, error)
		}{
			"all": {all, func() (report.Statement, error) { return s.Report(t.Context(), anna, report.Period{}) }},
			"from an hour ago on": {all, func() (report.Statement, error) {
				return s.Report(t.Context(), anna, report.Period{From: now.Add(-time.Hour)})
			}},
			"from now on": {nothing, func() (report.Statement, error) {
				return s.Report(t.Context(), anna, report.Period{From: now.Add(time.Hour)})
			}},
			"until an hour ago": {nothing, func() (report.Statement, error) {
				return s.Report(t.Context(), anna, report.Period{Until: now.Add(-time.Hour)})
			}},
			"of a run":           {ofRun, func() (report.Statement, error) { return s.RunReport(t.Context(), anna, "ar-1", nil) }},
			"of its first":       {ofRun, func() (report.Statement, error) { return s.RunReport(t.Context(), anna, "ar-1", new(int)) }},
			"of another version": {nothing, func() (report.Statement, error) { return s.RunReport(t.Context(), anna, "ar-1", &one) }},
			"of a canvas":        {ofRun, func() (report.Statement, error) { return s.CanvasReport(t.Context(), anna, "c-1") }},
			"of another canvas":  {nothing, func() (report.Statement, error) { return s.CanvasReport(t.Context(), anna, "c-2") }},
		} {
			got, err := c.read()
			require.NoError(t, err, name)
			require.Equal(t, c.want, got, name)
		}
	})
}

// Every method of the service is tried as another user.
func TestAnotherTenant(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := books(t, db)
		nothing := report.Statement{Lines: []report.Line{}}
		tried := map[string]func() (report.Statement, error){
			"Report":       func() (report.Statement, error) { return s.Report(t.Context(), ben, report.Period{}) },
			"RunReport":    func() (report.Statement, error) { return s.RunReport(t.Context(), ben, "ar-1", nil) },
			"CanvasReport": func() (report.Statement, error) { return s.CanvasReport(t.Context(), ben, "c-1") },
			"ReportBy": func() (report.Statement, error) {
				got, err := s.ReportBy(t.Context(), ben, report.Period{}, report.Grouping{By: report.ByDay})
				got.Zone = ""
				return got, err
			},
			"Verify": func() (report.Statement, error) { return nothing, nil }, // for operators; of all users
		}
		for m := range reflect.TypeFor[*report.Service]().Methods() {
			require.Contains(t, tried, m.Name)
			got, err := tried[m.Name]()
			require.NoError(t, err, m.Name)
			require.Equal(t, nothing, got, m.Name)
		}
	})
}

func TestBooksThatDoNotBalanceAreFound(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := books(t, db)
		users, wrong, err := s.Verify(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, users)
		require.Empty(t, wrong)
		for _, c := range []struct{ change, says string }{
			{"UPDATE credit_debts SET balance = 1", "u-anna was charged 7; 4 were taken from recharges and 1 are owed"},
			{"UPDATE credit_recharges SET balance = 2", "u-anna was charged 7; 2 were taken from recharges and 1 are owed"},
			{"UPDATE credit_usages SET amount = 9 WHERE usage_type = 'model_call'", "u-anna was charged 11; 2 were taken from recharges and 1 are owed"},
		} {
			exec(t, db, c.change)
			_, wrong, err = s.Verify(t.Context())
			require.NoError(t, err)
			require.Len(t, wrong, 1)
			require.Equal(t, c.says, wrong[0].String())
		}
	})
}

func TestAReportByToolModelAndToolsetAddsUp(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := books(t, db)
		for by, want := range map[string][]report.Line{
			report.ByTool: {
				{Type: "tool_call", Toolset: "demo", Tool: "x", Calls: 1, Total: 2 * credit, Charged: 2 * credit},
				{Type: "tool_call", Toolset: "gift", Tool: "x", Calls: 1, Total: 2 * credit},
			},
			report.ByToolset: {
				{Type: "tool_call", Toolset: "demo", Calls: 1, Total: 2 * credit, Charged: 2 * credit},
				{Type: "tool_call", Toolset: "gift", Calls: 1, Total: 2 * credit},
			},
			report.ByModel: {{Type: "model_call", Model: "m", Calls: 1, Total: 5 * credit, Charged: 5 * credit}},
		} {
			got, err := s.ReportBy(t.Context(), anna, report.Period{}, report.Grouping{By: by})
			require.NoError(t, err, by)
			require.Equal(t, want, got.Lines, by)
			var total, charged money.Amount
			for _, l := range want {
				total, charged = total+l.Total, charged+l.Charged
			}
			require.Equal(t, total, got.Total, by)
			require.Equal(t, charged, got.Charged, by)
		}
	})
}

// A day is one of the zone that is asked for, whatever the hour in UTC, and sums
// are exact where floating-point numbers are not.
func TestAReportByDayIsExactInEveryTimeZone(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := books(t, db)
		exec(t, db, "UPDATE credit_usages SET created_at = ?", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		exec(t, db, "UPDATE credit_usages SET created_at = ?, amount = 0.000001 WHERE tool_call_id = 'call-1'", time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC))
		for zone, days := range map[string][]report.Line{
			"":              {{Day: "2026-03-01", Calls: 3, Total: 9 * credit, Charged: 5*credit + 1}},
			"Europe/Berlin": {{Day: "2026-03-01", Calls: 2, Total: 7 * credit, Charged: 5 * credit}, {Day: "2026-03-02", Calls: 1, Total: 2 * credit, Charged: 1}},
		} {
			got, err := s.ReportBy(t.Context(), anna, report.Period{}, report.Grouping{By: report.ByDay, Zone: zone})
			require.NoError(t, err)
			require.Equal(t, days, got.Lines, zone)
			require.Equal(t, 5*credit+1, got.Charged)
			require.Equal(t, 9*credit, got.Total)
		}
		later, err := s.ReportBy(t.Context(), anna, report.Period{From: time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC)}, report.Grouping{By: report.ByDay})
		require.NoError(t, err)
		require.Equal(t, []report.Line{{Day: "2026-03-01", Calls: 1, Total: 2 * credit, Charged: 1}}, later.Lines)
		for _, g := range []report.Grouping{{By: report.ByDay, Zone: "Mars/Olympus"}, {By: report.ByDay, Zone: "Local"}, {By: report.ByTool, Zone: "UTC"}} {
			_, err := s.ReportBy(t.Context(), anna, report.Period{}, g)
			require.Equal(t, errs.Invalid, errs.CodeOf(err), g)
		}
	})
}

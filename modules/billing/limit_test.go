package billing_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/billing/report"
)

// call records a call in a state.
func call(t testing.TB, db *database.DB, a actor.Actor, id, status string) {
	t.Helper()
	exec(t, db, `INSERT INTO tool_call_results (result_id, call_id, uid, toolset_id, tool_name, input, output, status) VALUES ('ar-1', ?, ?, 'demo', 'x', '{}', '', ?)
		ON CONFLICT (call_id) DO UPDATE SET status = excluded.status`, id, a.UID, status)
}

func exec(t testing.TB, db *database.DB, sql string, args ...any) {
	t.Helper()
	err := db.InTx(t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql, args...).Error })
	if err != nil {
		t.Fatal(err)
	}
}

func TestLimitsRefuseBeforeTheCall(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
		s := billing.New(billing.Deps{DB: db, Limits: billing.Limits{Run: new(5 * credit)}, FreeToolsets: []string{"free"}, Now: func() time.Time { return now }}).Service
		a := newUser(t, db)
		admit := func(id, run, toolset string, price money.Amount) error {
			call(t, db, a, id, "executing")
			return s.Admit(t.Context(), billing.Charge{CallID: id, UID: a.UID, ResultID: run, Toolset: toolset, Global: true, Price: price})
		}
		end := func(id, run string, price money.Amount) {
			if price > 0 {
				if _, err := charge(t, s, billing.Charge{CallID: id, UID: a.UID, ResultID: run, Toolset: "demo", Global: true, Price: price}); err != nil {
					t.Fatal(err)
				}
			}
			call(t, db, a, id, "completed")
		}
		refused := func(err error, says string) {
			t.Helper()
			if errs.CodeOf(err) != errs.NoCredits || !strings.Contains(errs.Message(err), says) {
				t.Errorf("%v, want it to say %q", err, says)
			}
		}
		if err := admit("a", "ar-1", "demo", 3*credit); err != nil {
			t.Fatal(err)
		}
		refused(admit("b", "ar-1", "demo", 3*credit), "The spending limit of this run is 5 credits; 3 are spent or in use, and the call costs at least 3.")
		end("a", "ar-1", 3*credit)
		refused(admit("c", "ar-1", "demo", 3*credit), "3 are spent")
		if err := admit("d", "ar-1", "demo", 2*credit); err != nil {
			t.Errorf("what fits exactly: %v", err)
		}
		end("d", "ar-1", 0) // it failed, and what was held is free again
		if err := admit("e", "ar-1", "demo", 2*credit); err != nil {
			t.Errorf("after a failed call: %v", err)
		}
		end("e", "ar-1", 2*credit)
		refused(admit("f", "ar-1", "demo", 0), "5 are spent") // what it costs is not known, and nothing is left
		if err := admit("g", "ar-1", "free", 0); err != nil {
			t.Errorf("a free toolset: %v", err)
		}
		if err := admit("h", "ar-2", "demo", 5*credit); err != nil {
			t.Errorf("another run: %v", err)
		}

		// Limits of one user come before those of the server, and a day ends.
		if err := s.SetLimits(t.Context(), a.UID, billing.Limits{Run: new(100 * credit), Day: new(12 * credit)}); err != nil {
			t.Fatal(err)
		}
		refused(admit("i", "ar-3", "demo", 3*credit), "The spending limit of this day is 12 credits; 10 are spent")
		now = now.Add(12 * time.Hour)
		end("h", "ar-2", 0)
		if err := admit("j", "ar-3", "demo", 3*credit); err != nil {
			t.Errorf("on the next day: %v", err)
		}
		end("j", "ar-3", 0)

		// How far the balance may go below nothing: it is -5 now.
		if err := s.SetLimits(t.Context(), a.UID, billing.Limits{Run: new(100 * credit), Overdraft: new(7 * credit)}); err != nil {
			t.Fatal(err)
		}
		if err := admit("k", "ar-3", "demo", 2*credit); err != nil {
			t.Error(err)
		}
		refused(admit("l", "ar-3", "demo", credit), "and 0 are left")
		if err := s.SetLimits(t.Context(), a.UID, billing.Limits{Run: new(-credit)}); errs.CodeOf(err) != errs.Invalid {
			t.Errorf("a negative limit: %v", err)
		}
		if err := s.SetLimits(t.Context(), "u-nobody", billing.Limits{}); !errors.Is(err, billing.ErrUserMissing) {
			t.Error(err)
		}
	})
}

// Calls that ask at once cannot go over a limit together.
func TestLimitsHoldUnderParallelCalls(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := billing.New(billing.Deps{DB: db, Limits: billing.Limits{Day: new(10 * credit)}}).Service
		a := newUser(t, db)
		var admitted atomic.Int32
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				id := ids.New("call")
				call(t, db, a, id, "executing")
				err := s.Admit(t.Context(), billing.Charge{CallID: id, UID: a.UID, Toolset: "demo", Global: true, Price: credit})
				switch {
				case err == nil:
					admitted.Add(1)
				case errs.CodeOf(err) != errs.NoCredits:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := admitted.Load(); n != 10 {
			t.Errorf("%d calls of 1 credit were admitted, the limit is 10", n)
		}
	})
}

func TestPlansGiveOnceADayAndOnceAMonth(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		now := time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)
		s := billing.New(billing.Deps{DB: db, Now: func() time.Time { return now }}).Service
		a := newUser(t, db)
		is := func(want string) {
			t.Helper()
			for range 2 { // asking twice gives once
				if got := balance(t, s, a).Net.String(); got != want {
					t.Fatalf("%s credits, want %s", got, want)
				}
			}
		}
		is("0")
		for _, p := range []billing.Plan{
			{Type: billing.FreePlan, LookupKey: "free", DailyGift: 10 * credit},
			{Type: "plus", Interval: "monthly", LookupKey: "portico_plus_monthly", Monthly: 2000 * credit, DailyGift: 100 * credit},
		} {
			if err := s.SetPlan(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		is("10")
		if _, err := charge(t, s, billing.Charge{UID: a.UID, Toolset: "demo", Global: true, Price: 25 * credit}); err != nil {
			t.Fatal(err)
		}
		is("-15")
		now = now.Add(24 * time.Hour)
		is("-5") // the gift pays the debt once
		if page, err := s.Recharges(t.Context(), a, httpapi.PageQuery{Limit: 10}); err != nil || len(page.Items) != 2 || page.Items[0].Left != 0 ||
			page.Items[0].ID != "cr-daily-"+a.UID+"-20260131" || !page.Items[0].ExpiresAt.Equal(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%+v, %v", page, err)
		}
		for range 2 {
			if err := s.Subscribe(t.Context(), a.UID, billing.Subscription{ID: "sub-1", LookupKey: "portico_plus_monthly"}); err != nil {
				t.Fatal(err)
			}
		}
		is("1995") // the day's gift was given by the other plan
		now = now.Add(24 * time.Hour)
		is("2100") // the credits of January have expired, those of February are there
		if err := s.Cancel(t.Context(), a.UID); err != nil {
			t.Fatal(err)
		}
		is("2100")
		now = now.Add(24 * time.Hour)
		is("2010") // a gift of the free plan
		exec(t, db, `INSERT INTO subscriptions (subscription_id, lookup_key, plan_type, uid, status, override_plan) VALUES ('sub-2', 'portico_plus_monthly', 'plus', ?, 'active', '{"dailyGiftCreditQuota": 7}')`, a.UID)
		now = now.Add(24 * time.Hour)
		is("2007")

		if err := s.Subscribe(t.Context(), a.UID, billing.Subscription{LookupKey: "none"}); !errors.Is(err, billing.ErrPlanMissing) {
			t.Error(err)
		}
		if err := s.Subscribe(t.Context(), "u-nobody", billing.Subscription{LookupKey: "free"}); !errors.Is(err, billing.ErrUserMissing) {
			t.Error(err)
		}
		for _, bad := range []billing.Plan{{LookupKey: "x"}, {Type: "x"}, {Type: "x", LookupKey: "x", Monthly: -1}} {
			if err := s.SetPlan(t.Context(), bad); !errors.Is(err, billing.ErrBadPlan) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if plans, err := s.Plans(t.Context()); err != nil || len(plans) != 2 || plans[1].Interval != "monthly" {
			t.Errorf("%+v, %v", plans, err)
		}
	})
}

// A request to a model is admitted with what the plan gives, whoever asks first; what
// it costs is not known, and a refusal does not say that it costs nothing.
func TestModelsAreAdmittedWithTheAllowance(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
		s := billing.New(billing.Deps{DB: db, Limits: billing.Limits{Overdraft: new(0 * credit)}, Now: func() time.Time { return now }}).Service
		a := newUser(t, db)
		admit := func() error { return s.AdmitModel(t.Context(), a.UID, "ar-1", 0) }
		refused := func(says string) {
			t.Helper()
			if err := admit(); errs.CodeOf(err) != errs.NoCredits || errs.Message(err) != says {
				t.Errorf("%v, want %q", err, says)
			}
		}
		const none = "No credits are left."
		refused(none)
		if err := s.SetPlan(t.Context(), billing.Plan{Type: billing.FreePlan, LookupKey: "free", DailyGift: 10 * credit}); err != nil {
			t.Fatal(err)
		}
		if err := admit(); err != nil {
			t.Fatalf("the plan gives 10 credits: %v", err)
		}
		if _, err := charge(t, s, billing.Charge{CallID: "a", UID: a.UID, ResultID: "ar-1", Toolset: "demo", Global: true, Price: 10 * credit}); err != nil {
			t.Fatal(err)
		}
		refused(none)
		now = now.Add(24 * time.Hour)
		if err := admit(); err != nil {
			t.Errorf("on the next day: %v", err)
		}
		if err := s.SetLimits(t.Context(), a.UID, billing.Limits{Run: new(10 * credit)}); err != nil {
			t.Fatal(err)
		}
		refused("The spending limit of this run is 10 credits; 10 are spent or in use.")
	})
}

func TestRefundsAndReports(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, reports, a := service(db), report.New(db), newUser(t, db)
		grant(t, s, a, 10*credit, time.Hour)
		for i, price := range []money.Amount{2 * credit, 2 * credit, 5 * credit, credit} {
			c := billing.Charge{CallID: "call-" + string(rune('a'+i)), UID: a.UID, ResultID: "ar-1", Toolset: "demo", Tool: "x", Global: true, Price: price}
			if i == 2 {
				c.Tool = "y"
			}
			if i == 3 {
				c.Toolset, c.ResultID = "twitter", ""
			}
			if _, err := charge(t, s, c); err != nil {
				t.Fatal(err)
			}
		}
		r, err := reports.Report(t.Context(), a, report.Period{})
		if err != nil || len(r.Lines) != 3 || r.Charged != 9*credit || r.Total != 10*credit {
			t.Fatalf("%+v, %v", r, err)
		}
		if first, second := r.Lines[0], r.Lines[1]; first.Tool != "y" || first.Calls != 1 || second.Toolset != "demo" || second.Calls != 2 || second.Charged != 4*credit {
			t.Errorf("%+v", r.Lines)
		}
		if r, err := reports.RunReport(t.Context(), a, "ar-1", new(int)); err != nil || r.Charged != 9*credit || len(r.Lines) != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		later := report.Period{From: database.Now().Add(time.Hour)}
		if r, err := reports.Report(t.Context(), a, later); err != nil || len(r.Lines) != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := reports.Report(t.Context(), a, report.Period{Until: later.From}); err != nil || r.Charged != 9*credit {
			t.Errorf("%+v, %v", r, err)
		}
		for range 2 { // once
			if n, err := s.Refund(t.Context(), a.UID, "call-c", "it was broken"); err != nil || n != 5*credit {
				t.Fatalf("%v, %v", n, err)
			}
		}
		if b := balance(t, s, a); b.Net != 6*credit {
			t.Errorf("%+v", b)
		}
		for _, id := range []string{"call-d", "call-none"} { // it was free; there is none
			if _, err := s.Refund(t.Context(), a.UID, id, ""); !errors.Is(err, billing.ErrNotBilled) {
				t.Errorf("%s: %v", id, err)
			}
		}
		if _, wrong, err := reports.Verify(t.Context()); err != nil || len(wrong) != 0 {
			t.Errorf("%v, %v", wrong, err)
		}
	})
}

func TestRates(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(db)
		if r, err := s.Rates(t.Context(), "composio"); err != nil || r != nil {
			t.Fatalf("%+v, %v", r, err)
		}
		for _, want := range []price.Rates{{Standard: 299_000, Premium: 897_000, Margin: credit}, {Standard: 1, Margin: 2 * credit}} {
			if err := s.SetRates(t.Context(), "composio", want); err != nil {
				t.Fatal(err)
			}
			if r, err := s.Rates(t.Context(), "composio"); err != nil || *r != want {
				t.Errorf("%+v, %v", r, err)
			}
		}
		if err := s.SetRates(t.Context(), "composio", price.Rates{}); !errors.Is(err, billing.ErrBadRate) {
			t.Error(err)
		}
	})
}

package billing_test

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/report"
)

const credit = money.Credit

func newUser(t testing.TB, db *database.DB) actor.Actor {
	t.Helper()
	a := actor.Actor{UID: ids.New(ids.User)}
	err := db.InTx(t.Context(), func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES (?, ?)", a.UID, a.UID).Error
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func service(db *database.DB) *billing.Service {
	return billing.New(billing.Deps{DB: db, FreeToolsets: shipped().Billing.FreeToolsets}).Service
}

// shipped is the configuration without any setting.
func shipped() *configs.Config {
	c, err := configs.Load(configs.Options{})
	if err != nil {
		panic(err) // default.yaml is part of the program
	}
	return c
}

// charge records a completed call and pays for it, as the gateway does.
func charge(t testing.TB, s *billing.Service, c billing.Charge) (billing.Receipt, error) {
	t.Helper()
	if c.CallID == "" {
		c.CallID = ids.New("call")
	}
	var r billing.Receipt
	err := billing.DB(s).InTx(t.Context(), func(tx database.Tx) error {
		err := database.Unscoped(tx.Handle).Exec(`INSERT INTO tool_call_results (result_id, call_id, uid, toolset_id, tool_name, input, output)
			VALUES ('non-result-id', ?, ?, ?, ?, '{}', '') ON CONFLICT DO NOTHING`, c.CallID, c.UID, c.Toolset, c.Tool).Error
		if err != nil {
			return err
		}
		r, err = s.Charge(t.Context(), tx, c)
		return err
	})
	return r, err
}

func grant(t testing.TB, s *billing.Service, a actor.Actor, amount money.Amount, in time.Duration) {
	t.Helper()
	err := s.Grant(t.Context(), a.UID, billing.Recharge{ID: ids.New(ids.Recharge), Amount: amount, ExpiresAt: database.Now().Add(in)})
	if err != nil {
		t.Fatal(err)
	}
}

func balance(t testing.TB, s *billing.Service, a actor.Actor) billing.Balance {
	t.Helper()
	b, err := s.Balance(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func total(t testing.TB, s *billing.Service, a actor.Actor) (rows int, amount money.Amount) {
	t.Helper()
	page := httpapi.PageQuery{Limit: 50}
	for {
		p, err := s.Usages(t.Context(), a, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range p.Items {
			rows++
			amount += u.Amount
		}
		if page.Cursor = p.NextCursor; page.Cursor == "" {
			return rows, amount
		}
	}
}

func TestChargeTakesTheNearestExpiryFirstAndThenOwes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, a := service(db), newUser(t, db)
		grant(t, s, a, 2*credit, 48*time.Hour)
		grant(t, s, a, 3*credit, 24*time.Hour)
		c := billing.Charge{UID: a.UID, Toolset: "demo", Tool: "x", Global: true, Price: 4 * credit}
		if r, err := charge(t, s, c); err != nil || r.Amount != 4*credit || r.Due != 4*credit {
			t.Fatalf("%+v, %v", r, err)
		}
		// The later lot alone is left: the nearer one was used up first.
		if b := balance(t, s, a); b.Credit != 2*credit || b.Net != credit || b.Debt != 0 {
			t.Errorf("%+v", b)
		}
		if _, err := charge(t, s, c); err != nil {
			t.Fatal(err)
		}
		if b := balance(t, s, a); b.Net != -3*credit || b.Debt != 3*credit {
			t.Errorf("after the overdraft: %+v", b)
		}
		grant(t, s, a, 5*credit, time.Hour)
		if b := balance(t, s, a); b.Net != 2*credit || b.Debt != 0 {
			t.Errorf("after the debt was paid: %+v", b)
		}
	})
}

func TestOneCallIsChargedOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, a := service(db), newUser(t, db)
		grant(t, s, a, 10*credit, time.Hour)
		c := billing.Charge{CallID: "call-1", UID: a.UID, Toolset: "demo", Tool: "x", Global: true, Price: credit}
		for range 3 {
			if r, err := charge(t, s, c); err != nil || r.Amount != credit {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		if rows, amount := total(t, s, a); rows != 1 || amount != credit {
			t.Errorf("%d rows, %v credits", rows, amount)
		}
		if b := balance(t, s, a); b.Net != 9*credit {
			t.Errorf("one call of 1 credit left %+v of 10", b)
		}
	})
}

func TestWhatIsFree(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(db)
		subscribe := func(a actor.Actor, key, status string, age time.Duration, cancel any) {
			err := db.InTx(t.Context(), func(tx database.Tx) error {
				return database.Unscoped(tx.Handle).Exec(`INSERT INTO subscriptions (subscription_id, lookup_key, plan_type, uid, status, cancel_at, created_at)
					VALUES (?, ?, 'plus', ?, ?, ?, ?)`, ids.New("sub"), key, a.UID, status, cancel, database.Now().Add(-age)).Error
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		const day, key = 24 * time.Hour, "refly_plus_monthly_stable_v3"
		cases := map[string]struct {
			setup   func(actor.Actor)
			toolset string
			global  bool
			amount  money.Amount
			rows    int
		}{
			"plain":              {nil, "demo", true, credit, 1},
			"own toolset":        {nil, "demo", false, 0, 0},
			"free list":          {nil, "twitter", true, 0, 1},
			"young plus":         {func(a actor.Actor) { subscribe(a, key, "active", day, nil) }, "demo", true, 0, 1},
			"old plus":           {func(a actor.Actor) { subscribe(a, key, "active", 32*day, nil) }, "demo", true, credit, 1},
			"inactive plus":      {func(a actor.Actor) { subscribe(a, key, "canceled", day, nil) }, "demo", true, credit, 1},
			"plus that ended":    {func(a actor.Actor) { subscribe(a, key, "active", day, database.Now().Add(-time.Hour)) }, "demo", true, credit, 1},
			"plus that will end": {func(a actor.Actor) { subscribe(a, key, "active", day, database.Now().Add(day)) }, "demo", true, 0, 1},
			"another plan":       {func(a actor.Actor) { subscribe(a, "reflyXplusXmonthly", "active", day, nil) }, "demo", true, credit, 1},
		}
		for name, c := range cases {
			a := newUser(t, db)
			if c.setup != nil {
				c.setup(a)
			}
			if _, err := charge(t, s, billing.Charge{UID: a.UID, Toolset: c.toolset, Tool: "x", Global: c.global, Price: credit}); err != nil {
				t.Fatal(err)
			}
			if rows, amount := total(t, s, a); rows != c.rows || amount != c.amount {
				t.Errorf("%s: %d rows, %v credits, want %d, %v", name, rows, amount, c.rows, c.amount)
			}
		}
	})
}

func TestGrantIsIdempotent(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, a, b := service(db), newUser(t, db), newUser(t, db)
		if _, err := charge(t, s, billing.Charge{UID: a.UID, Toolset: "demo", Global: true, Price: 10 * credit}); err != nil {
			t.Fatal(err)
		}
		r := billing.Recharge{ID: "cr-daily", Amount: 4 * credit, ExpiresAt: database.Now().Add(time.Hour)}
		for range 3 { // a redelivered grant must not pay the debt again
			if err := s.Grant(t.Context(), a.UID, r); err != nil {
				t.Fatal(err)
			}
		}
		if got := balance(t, s, a); got.Debt != 6*credit {
			t.Errorf("%+v", got)
		}
		if err := s.Grant(t.Context(), b.UID, r); !errors.Is(err, billing.ErrGrantForeign) {
			t.Errorf("the same id for another user: %v", err)
		}
		for _, bad := range []billing.Recharge{
			{Amount: credit, ExpiresAt: r.ExpiresAt}, {ID: "x", ExpiresAt: r.ExpiresAt}, {ID: "x", Amount: credit, ExpiresAt: database.Now().Add(-time.Minute)},
		} {
			if err := s.Grant(t.Context(), a.UID, bad); !errors.Is(err, billing.ErrBadRecharge) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if err := s.Grant(t.Context(), "u-nobody", r); !errors.Is(err, billing.ErrUserMissing) {
			t.Errorf("unknown user: %v", err)
		}
	})
}

func TestParallelChargesAndGrantsLeaveExactlyTheRightBalance(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, a := service(db), newUser(t, db)
		grant(t, s, a, 50*credit, time.Hour)
		grant(t, s, a, 30*credit, 2*time.Hour)
		const calls, price = 64, credit + credit/2 // 96 credits: more than there are at first
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				c := billing.Charge{UID: a.UID, Toolset: "demo", Tool: "x", Global: true, Price: price}
				if _, err := charge(t, s, c); err != nil {
					t.Error(err)
				}
				if i%16 == 0 {
					grant(t, s, a, credit, time.Hour)
				}
			})
		}
		wg.Wait()
		want := (50+30+4)*credit - calls*price
		if b := balance(t, s, a); b.Net != want {
			t.Errorf("balance %v, want %v", b.Net, want)
		}
		if rows, amount := total(t, s, a); rows != calls || amount != calls*price {
			t.Errorf("%d rows, %v credits", rows, amount)
		}
	})
}

// TestTheBooksBalance: what was granted is what was charged and what is left,
// after any sequence of grants and charges.
func TestTheBooksBalance(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(db)
		rapid.Check(t, func(rt *rapid.T) {
			a := newUser(t, db)
			var granted money.Amount
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				amount := money.Amount(rapid.Int64Range(1, 20_000_000).Draw(rt, "amount"))
				if rapid.Bool().Draw(rt, "grant") {
					grant(t, s, a, amount, time.Duration(rapid.IntRange(1, 90).Draw(rt, "hours"))*time.Hour)
					granted += amount
				} else if _, err := charge(t, s, billing.Charge{UID: a.UID, Toolset: "demo", Tool: "x", Global: true, Price: amount}); err != nil {
					rt.Fatal(err)
				}
				if _, spent := total(t, s, a); balance(t, s, a).Net != granted-spent {
					rt.Fatalf("balance %v, granted %v, spent %v", balance(t, s, a), granted, spent)
				}
			}
		})
		users, wrong, err := report.New(db).Verify(t.Context())
		if err != nil || users < 50 || len(wrong) != 0 {
			t.Fatalf("%d users, %v, %v", users, wrong, err)
		}
		a := newUser(t, db)
		grant(t, s, a, 5*credit, time.Hour)
		err = db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Unscoped(tx.Handle).Exec("UPDATE credit_recharges SET balance = 3.999999 WHERE uid = ?", a.UID).Error
		})
		if err != nil {
			t.Fatal(err)
		}
		_, wrong, err = report.New(db).Verify(t.Context())
		if err != nil || len(wrong) != 1 || wrong[0].String() != a.UID+" was charged 0; 1.000001 were taken from recharges and 0 are owed" {
			t.Fatalf("a balance that was changed is not found: %v, %v", wrong, err)
		}
	})
}

func TestExpiredCreditsPayNothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		a, now := newUser(t, db), database.Now()
		s := billing.New(billing.Deps{DB: db, Now: func() time.Time { return now }}).Service
		grant(t, s, a, 10*credit, time.Hour)
		now = now.Add(2 * time.Hour)
		if _, err := charge(t, s, billing.Charge{UID: a.UID, Toolset: "demo", Global: true, Price: credit}); err != nil {
			t.Fatal(err)
		}
		if b := balance(t, s, a); b.Net != -credit || b.Credit != 0 {
			t.Errorf("%+v", b)
		}
	})
}

func TestRowsMatchTheSchema(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, row := range billing.Rows() {
			databasetest.CheckRow(t, db, row)
		}
	})
}

// TestAnotherTenant tries every method of the service as another user.
func TestAnotherTenant(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, alice, bob, carol := service(db), newUser(t, db), newUser(t, db), newUser(t, db)
		grant(t, s, alice, 10*credit, time.Hour)
		if _, err := charge(t, s, billing.Charge{CallID: "call-a", UID: alice.UID, ResultID: "ar-1", Toolset: "demo", Tool: "x", Global: true, Price: credit}); err != nil {
			t.Fatal(err)
		}
		tried := map[string]func(){
			"Balance": func() {
				if b := balance(t, s, bob); b != (billing.Balance{}) {
					t.Errorf("%+v", b)
				}
			},
			"Usages": func() {
				if rows, _ := total(t, s, bob); rows != 0 {
					t.Errorf("%d rows", rows)
				}
			},
			"Recharges": func() {
				if got, err := s.Recharges(t.Context(), bob, httpapi.PageQuery{Limit: 10}); err != nil || len(got.Items) != 0 {
					t.Errorf("%+v, %v", got, err)
				}
			},
			"Admit": func() { // what alice spent is nothing to bob's limit
				limit := credit
				if err := s.SetLimits(t.Context(), bob.UID, billing.Limits{Run: &limit, Day: &limit}); err != nil {
					t.Fatal(err)
				}
				call(t, db, bob, "call-b", "executing")
				if err := s.Admit(t.Context(), billing.Charge{CallID: "call-b", UID: bob.UID, ResultID: "ar-1", Global: true, Price: credit}); err != nil {
					t.Error(err)
				}
			},
			"AdmitModel": func() { // what others spent is nothing to carol's
				if err := s.AdmitModel(t.Context(), carol.UID, "ar-1", 0); err != nil {
					t.Error(err)
				}
			},
			"Refund": func() { // an operator who names another user gives nothing back
				if _, err := s.Refund(t.Context(), bob.UID, "call-a", ""); !errors.Is(err, billing.ErrNotBilled) {
					t.Error(err)
				}
			},
			// For operators; each names its user, or belongs to none.
			"Follow": func() {}, "PlanOf": func() {}, "LimitsOf": func() {}, "SetLimits": func() {}, "Subscribe": func() {}, "Cancel": func() {}, "SetPlan": func() {}, "Plans": func() {},
			"SetRates": func() {}, "Rates": func() {},
			// For administrators, and what is the same for all.
			"LimitsOfAll": func() {}, "SetLimitsBy": func() {}, "Usual": func() {},
			"Standing": func() { // what others spent is not his
				if got, err := s.Standing(t.Context(), actor.Actor{UID: "u-dave"}); err != nil || got.Spent != 0 || got.Held != 0 || got.Plan != billing.FreePlan {
					t.Errorf("%+v, %v", got, err)
				}
			},
			"Charge": func() { // a charge for carol cannot touch alice's credits
				if _, err := charge(t, s, billing.Charge{UID: carol.UID, Toolset: "demo", Tool: "x", Global: true, Price: credit}); err != nil {
					t.Fatal(err)
				}
			},
			"ChargeModel": func() { // nor one for a model
				err := db.InTx(t.Context(), func(tx database.Tx) error {
					return s.ChargeModel(t.Context(), tx, billing.ModelCharge{UID: carol.UID, ResultID: "ar-1", Model: "m", Price: credit})
				})
				if err != nil {
					t.Fatal(err)
				}
			},
			"Grant": func() {}, // for operators; it names its user
		}
		for m := range reflect.TypeFor[*billing.Service]().Methods() {
			try, ok := tried[m.Name]
			if !ok {
				t.Errorf("%s was never tried as another tenant", m.Name)
				continue
			}
			try()
		}
		if got := fmt.Sprint(balance(t, s, alice).Net); got != "9" {
			t.Errorf("alice has %s credits, want 9", got)
		}
	})
}

func TestModelCalls(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, a := service(db), newUser(t, db)
		grant(t, s, a, 3*credit, time.Hour)
		for _, p := range []money.Amount{2 * credit, 0, 2 * credit} {
			err := db.InTx(t.Context(), func(tx database.Tx) error {
				return s.ChargeModel(t.Context(), tx, billing.ModelCharge{UID: a.UID, ResultID: "ar-1", Version: 1, Model: "gpt-x", Input: 5, Output: 6, Price: p})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if b := balance(t, s, a); b.Net != -credit || b.Debt != credit {
			t.Errorf("%+v", b)
		}
		page, err := s.Usages(t.Context(), a, httpapi.PageQuery{Limit: 10})
		if err != nil || len(page.Items) != 2 {
			t.Fatalf("%+v, %v", page, err)
		}
		if u := page.Items[0]; u.Type != "model_call" || u.Model != "gpt-x" || u.CallID != "" || u.ResultID != "ar-1" || *u.Version != 1 || u.Amount != 2*credit {
			t.Errorf("%+v", u)
		}
	})
}

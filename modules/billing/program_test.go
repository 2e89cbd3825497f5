package billing_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/report"
)

// ledger is what the books of one user must say, kept in the simplest way.
type ledger struct {
	lots    []lot
	debts   []money.Amount
	charged map[string]money.Amount
	now     time.Time
}

type lot struct {
	left    money.Amount
	expires time.Time
	order   int
}

func (l *ledger) grant(amount money.Amount, until time.Time) {
	for i := range l.debts {
		part := min(l.debts[i], amount)
		l.debts[i] -= part
		amount -= part
	}
	l.lots = append(l.lots, lot{amount, until, len(l.lots)})
}

func (l *ledger) charge(amount money.Amount) {
	live := slices.SortedFunc(slices.Values(l.lots), func(a, b lot) int { return cmp.Or(a.expires.Compare(b.expires), a.order-b.order) })
	for _, one := range live {
		if one.expires.Before(l.now) {
			continue
		}
		part := min(one.left, amount)
		l.lots[one.order].left -= part
		amount -= part
	}
	if amount > 0 {
		l.debts = append(l.debts, amount)
	}
}

func (l *ledger) balance() (sum money.Amount) {
	for _, one := range l.lots {
		if !one.expires.Before(l.now) {
			sum += one.left
		}
	}
	for _, d := range l.debts {
		sum -= d
	}
	return sum
}

// program is a random life of one user's credits.
type program struct {
	t    *testing.T
	s    *billing.Service
	user actor.Actor
	rand *rand.Rand
	want ledger
	log  []string
}

func (p *program) note(format string, args ...any) {
	p.log = append(p.log, fmt.Sprintf(format, args...))
}

func (p *program) amount() money.Amount { return money.Amount(1 + p.rand.Int64N(20_000_000)) }

func (p *program) step(n int) error {
	ctx := p.t.Context()
	switch p.rand.IntN(6) {
	case 0, 1:
		amount, until := p.amount(), p.want.now.Add(time.Duration(1+p.rand.IntN(72))*time.Hour)
		p.note("recharge %s until %s", amount, until)
		p.want.grant(amount, until)
		r := billing.Recharge{ID: fmt.Sprintf("cr-%s-%d", p.user.UID, n), Amount: amount, Source: "purchase", ExpiresAt: until}
		if err := p.s.Grant(ctx, p.user.UID, r); err != nil || p.rand.IntN(4) > 0 {
			return err
		}
		return p.s.Grant(ctx, p.user.UID, r) // delivered twice
	case 2, 3, 4:
		amount, id := p.amount(), fmt.Sprintf("call-%s-%d", p.user.UID, n)
		p.note("charge %s", amount)
		p.want.charge(amount)
		p.want.charged[id] = amount
		c := billing.Charge{CallID: id, UID: p.user.UID, Toolset: "demo", Tool: "x", Global: true, Price: amount}
		if _, err := charge(p.t, p.s, c); err != nil || p.rand.IntN(4) > 0 {
			return err
		}
		_, err := charge(p.t, p.s, c) // settled twice
		return err
	default:
		if p.rand.IntN(2) == 0 {
			p.want.now = p.want.now.Add(time.Duration(p.rand.IntN(40)) * time.Hour)
			p.note("it is %s", p.want.now)
			return nil
		}
		for id, amount := range p.want.charged {
			delete(p.want.charged, id)
			p.note("refund %s", amount)
			p.want.grant(amount, p.want.now.AddDate(0, 0, 90))
			_, err := p.s.Refund(ctx, p.user.UID, id, "")
			return err
		}
		return nil
	}
}

// 10,000 random programs of recharge, charge, refund and expiry on each
// database: the balance is what the simplest books say, and what was charged is
// what was taken and owed.
func TestTenThousandProgramsKeepTheLedger(t *testing.T) {
	testenv.Slow(t, "ten thousand programs")
	t.Parallel()
	const workers = 8
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		users := make([]actor.Actor, programs)
		for i := 0; i < programs; i += 100 {
			var values []string
			var args []any
			for j := i; j < i+100; j++ {
				users[j] = actor.Actor{UID: fmt.Sprintf("u-%05d", j)}
				values = append(values, "(?, ?)")
				args = append(args, users[j].UID, users[j].UID)
			}
			exec(t, db, "INSERT INTO users (uid, name) VALUES "+strings.Join(values, ", "), args...)
		}
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := w; i < programs && !t.Failed(); i += workers {
					start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
					p := &program{t: t, user: users[i], rand: rand.New(rand.NewPCG(seed, uint64(i))), want: ledger{now: start, charged: map[string]money.Amount{}}}
					p.s = billing.New(billing.Deps{DB: db, Now: func() time.Time { return p.want.now }}).Service
					for n := range 2 + p.rand.IntN(4) {
						if err := p.step(n); err != nil {
							t.Errorf("program %d of seed %d: %v\n%s", i, seed, err, strings.Join(p.log, "\n"))
							return
						}
					}
					if got := balance(t, p.s, p.user).Net; got != p.want.balance() {
						t.Errorf("program %d of seed %d: balance %s, want %s\n%s", i, seed, got, p.want.balance(), strings.Join(p.log, "\n"))
					}
				}
			})
		}
		wg.Wait()
		n, wrong, err := report.New(db).Verify(t.Context())
		if err != nil || n != programs || len(wrong) != 0 {
			t.Errorf("%d users, %v, %v", n, wrong, err)
		}
	})
}

package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
)

// Plan is what a subscription gives.
type Plan struct {
	Type      string // "plus"; FreePlan applies to users without a subscription
	Interval  string // "monthly", "yearly"; empty for FreePlan
	LookupKey string // names the plan in subscriptions
	Monthly   money.Amount
	DailyGift money.Amount
}

// FreePlan is the type of the plan of users without a subscription.
const FreePlan = "free"

// Subscription is a user's plan.
type Subscription struct {
	ID        string
	LookupKey string
	// CancelAt is when it ends; zero for never.
	CancelAt time.Time
}

// Errors about plans.
var (
	ErrPlanMissing = errs.New(errs.NotFound, "There is no such plan.").Do("portico credit plan makes one.")
	ErrBadPlan     = errs.New(errs.Invalid, "A plan needs a type and a lookup key, and its credits are not negative.")
)

// SetPlan adds a plan, or changes the one with its lookup key. It is for
// operators.
func (s *Service) SetPlan(ctx context.Context, p Plan) error {
	if p.Type == "" || p.LookupKey == "" || p.Monthly < 0 || p.DailyGift < 0 || p.Monthly > money.Max || p.DailyGift > money.Max {
		return ErrBadPlan
	}
	now := s.now()
	return s.db.InTx(ctx, func(tx database.Tx) error {
		return s.rows.savePlan(tx, planRow{
			PlanType: p.Type, Interval: database.Optional(p.Interval), LookupKey: p.LookupKey, CreditQuota: p.Monthly, DailyGiftCreditQuota: p.DailyGift,
			CreatedAt: now, UpdatedAt: now,
		})
	})
}

// Plans lists the plans by lookup key.
func (s *Service) Plans(ctx context.Context) ([]Plan, error) {
	rows, err := s.rows.plans(s.db.Read(ctx))
	plans := make([]Plan, len(rows))
	for i, r := range rows {
		plans[i] = Plan{Type: r.PlanType, Interval: database.Text(r.Interval), LookupKey: r.LookupKey, Monthly: r.CreditQuota, DailyGift: r.DailyGiftCreditQuota}
	}
	return plans, err
}

// Subscribe gives a user a plan, and the credits of its first month. The same
// id subscribes once. It is for operators, and for who takes the payment.
func (s *Service) Subscribe(ctx context.Context, uid string, sub Subscription) error {
	now := s.now()
	return s.db.InTx(ctx, func(tx database.Tx) error {
		plan, err := s.rows.plan(tx.Handle, sub.LookupKey)
		if err != nil {
			return err
		}
		who, err := s.rows.lockUser(tx, uid, now)
		if err != nil {
			return err
		}
		row := subscriptionRow{
			SubscriptionID: sub.ID, LookupKey: sub.LookupKey, PlanType: plan.PlanType, Interval: plan.Interval, UID: uid,
			Status: subscribed, CreatedAt: now, UpdatedAt: now,
		}
		if row.SubscriptionID == "" {
			row.SubscriptionID = ids.New("sub")
		}
		if !sub.CancelAt.IsZero() {
			at := sub.CancelAt.UTC()
			row.CancelAt = &at
		}
		if err := s.rows.insertSubscription(tx, row); err != nil {
			return err
		}
		return s.allowances(tx, who, now)
	})
}

// hostSubscription begins the ids of subscriptions that follow what a user's
// host says.
const hostSubscription = "host-"

// Follow makes a plan the one that a user has by their host, within a
// transaction that already holds what the host says; empty for none.
// Subscriptions of another origin stay. It reports false for a plan that there
// is not: the user has none by their host then. A plan that the user had before
// goes on as it was, so that coming back to one is no new beginning.
func (s *Service) Follow(tx database.Tx, uid, lookupKey string) (known bool, err error) {
	known = true
	var plan planRow
	if lookupKey != "" {
		plan, err = s.rows.plan(tx.Handle, lookupKey)
		if errors.Is(err, ErrPlanMissing) {
			known, lookupKey, err = false, "", nil
		}
		if err != nil {
			return false, err
		}
	}
	current, err := s.rows.hostPlan(tx.Handle, uid)
	if err != nil || current == lookupKey {
		return known, err
	}
	now := s.now()
	who, err := s.rows.lockUser(tx, uid, now)
	if err != nil {
		return known, err
	}
	if err := s.rows.cancelHostSubscriptions(tx, uid, now); err != nil || lookupKey == "" {
		return known, err
	}
	err = s.rows.resumeSubscription(tx, subscriptionRow{
		SubscriptionID: hostSubscription + uid + "-" + lookupKey, LookupKey: lookupKey, PlanType: plan.PlanType, Interval: plan.Interval, UID: uid,
		Status: subscribed, CreatedAt: now, UpdatedAt: now,
	})
	if err != nil {
		return known, err
	}
	return known, s.allowances(tx, who, now)
}

// PlanOf returns the lookup key of a user's newest subscription, or FreePlan.
func (s *Service) PlanOf(ctx context.Context, uid string) (string, error) {
	return s.rows.planOf(s.db.Read(ctx), uid, s.now())
}

// Cancel ends the subscriptions of a user at once. Credits that were given
// stay until they expire.
func (s *Service) Cancel(ctx context.Context, uid string) error {
	return s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.cancelSubscriptions(tx, uid, s.now()) })
}

const (
	subscribed = "active"
	cancelled  = "canceled"
)

// allowance is credits that a plan gives for a time.
type allowance struct {
	id, source, text string
	amount           money.Amount
	until            time.Time
}

// allowances gives a user what the plan gives today and this month, unless it
// was given before: who asks first is served, nobody else has to come by. The
// caller holds the user's lock. Days and months are those of UTC.
func (s *Service) allowances(tx database.Tx, who payer, now time.Time) error {
	if !who.Plans {
		return nil
	}
	due, err := s.dueAllowances(tx.Handle, who.UID, now)
	if err != nil {
		return err
	}
	for _, a := range due {
		row := rechargeRow{
			RechargeID: a.id, UID: who.UID, Amount: a.amount, Balance: a.amount, Enabled: true, Source: a.source,
			Description: database.Optional(a.text), ExpiresAt: a.until, CreatedAt: now, UpdatedAt: now,
		}
		if err := s.recharge(tx, row); err != nil {
			return err
		}
	}
	return nil
}

// give is allowances for who holds no lock, which it takes only where there is something
// to be given.
func (s *Service) give(ctx context.Context, uid string) error {
	due, err := s.dueAllowances(s.db.Read(ctx), uid, s.now())
	if err != nil || len(due) == 0 {
		return err
	}
	return s.db.InTx(ctx, func(tx database.Tx) error {
		who, err := s.rows.lockUser(tx, uid, s.now())
		if err != nil {
			return err
		}
		return s.allowances(tx, who, s.now())
	})
}

// dueAllowances lists what is to be given to a user and was not given yet.
func (s *Service) dueAllowances(h database.Handle, uid string, now time.Time) ([]allowance, error) {
	q, err := s.rows.quota(h, uid, now)
	if err != nil || q.none() {
		return nil, err
	}
	day := now.Truncate(24 * time.Hour)
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	all := []allowance{
		{fmt.Sprintf("cr-daily-%s-%s", uid, day.Format("20060102")), "gift", "Daily gift", q.daily(), day.AddDate(0, 0, 1)},
		{fmt.Sprintf("cr-subscription-%s-%s", uid, month.Format("200601")), "subscription", "Subscription", q.CreditQuota, month.AddDate(0, 1, 0)},
	}
	var due []allowance
	for _, a := range all {
		if a.amount <= 0 {
			continue
		}
		_, seen, err := s.rows.rechargeByID(h, a.id)
		if err != nil {
			return nil, err
		}
		if !seen {
			due = append(due, a)
		}
	}
	return due, nil
}

// quota is what the plan of a user gives; override_plan of the subscription may
// name another gift.
type quota struct {
	CreditQuota          money.Amount
	DailyGiftCreditQuota money.Amount
	OverridePlan         *string
}

func (q quota) none() bool { return q.CreditQuota <= 0 && q.daily() <= 0 }

func (q quota) daily() money.Amount {
	var o struct {
		DailyGift *money.Amount `json:"dailyGiftCreditQuota"`
	}
	if q.OverridePlan != nil && json.Unmarshal([]byte(*q.OverridePlan), &o) == nil && o.DailyGift != nil {
		return *o.DailyGift
	}
	return q.DailyGiftCreditQuota
}

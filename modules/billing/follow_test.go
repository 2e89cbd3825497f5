package billing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing"
)

// follow puts a user on a plan as their host says.
func follow(t *testing.T, s *billing.Service, uid, plan string) (known bool) {
	t.Helper()
	require.NoError(t, billing.DB(s).InTx(t.Context(), func(tx database.Tx) (err error) {
		known, err = s.Follow(tx, uid, plan)
		return err
	}))
	return known
}

func TestPlansFollowTheHost(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
		s := billing.New(billing.Deps{DB: db, Now: func() time.Time { return now }}).Service
		a, other := newUser(t, db), newUser(t, db)
		for key, monthly := range map[string]money.Amount{"plus_monthly": 2000 * credit, "team": 500 * credit} {
			require.NoError(t, s.SetPlan(t.Context(), billing.Plan{Type: "plus", Interval: "monthly", LookupKey: key, Monthly: monthly}))
		}
		is := func(plan, net string) {
			t.Helper()
			got, err := s.PlanOf(t.Context(), a.UID)
			require.NoError(t, err)
			require.Equal(t, plan, got)
			require.Equal(t, net, balance(t, s, a).Net.String())
		}
		is(billing.FreePlan, "0")
		for range 2 {
			require.True(t, follow(t, s, a.UID, "plus_monthly"))
			is("plus_monthly", "2000")
		}
		now = now.Add(time.Hour)
		require.True(t, follow(t, s, a.UID, "team"))
		is("team", "2000") // the month's credits are given once
		require.False(t, follow(t, s, a.UID, "gone"))
		is(billing.FreePlan, "2000")
		require.True(t, follow(t, s, a.UID, "plus_monthly"))
		is("plus_monthly", "2000")
		var rows []struct {
			LookupKey, Status string
			CreatedAt         time.Time
		}
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Table("subscriptions").Where("uid = ?", a.UID).Order("pk").Find(&rows).Error)
		require.Len(t, rows, 2, "coming back to a plan goes on with it")
		require.Equal(t, "active canceled", rows[0].Status+" "+rows[1].Status)
		require.True(t, rows[0].CreatedAt.Equal(now.Add(-time.Hour)), "it is no new beginning")

		// What an operator gave is the operator's to end.
		now = now.Add(time.Hour)
		require.NoError(t, s.Subscribe(t.Context(), a.UID, billing.Subscription{LookupKey: "team"}))
		is("team", "2000")
		require.True(t, follow(t, s, a.UID, ""))
		is("team", "2000")
		plan, err := s.PlanOf(t.Context(), other.UID)
		require.NoError(t, err)
		require.Equal(t, billing.FreePlan, plan)
	})
}

package billing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/billing"
)

// Who cannot be charged by statements that are sent as a whole is known from the
// charge before: the database refuses, and PostgreSQL logs, one transaction and not each.
func TestChargesThatAreNotOrdinaryAreNotSentAsAWhole(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(db)
		anna, ben := newUser(t, db), newUser(t, db)
		// way says how a charge was made: "sent", "refused" after it was sent, or
		// "known" before.
		way := func(uid string) (how string) {
			t.Helper()
			c := billing.Charge{CallID: ids.New("call"), UID: uid, Toolset: "demo", Tool: "t", Global: true, Price: credit}
			call(t, db, actor.Actor{UID: uid}, c.CallID, "completed")
			how = "sent"
			// Not the user's group, which remembers what was refused as well.
			err := db.AtOnce(context.WithoutCancel(t.Context()), c.CallID, func(tx database.Tx) error {
				_, err := s.Charge(t.Context(), tx, c)
				switch {
				case errors.Is(err, database.ErrOneByOne):
					how = "known"
				case tx.Batch() == nil && how == "sent":
					how = "refused"
				}
				return err
			})
			require.NoError(t, err)
			return how
		}
		grant(t, s, anna, 2*credit, time.Hour)
		grant(t, s, ben, 100*credit, time.Hour)
		require.Equal(t, []string{"sent", "sent", "refused", "known", "known"}, []string{way(anna.UID), way(anna.UID), way(anna.UID), way(anna.UID), way(anna.UID)})
		require.Equal(t, "sent", way(ben.UID), "another user's")
		grant(t, s, anna, 50*credit, time.Hour)
		require.Equal(t, []string{"known", "sent"}, []string{way(anna.UID), way(anna.UID)}, "the credits are found")

		// Plans may give something first, to anyone.
		require.NoError(t, s.SetPlan(t.Context(), billing.Plan{Type: billing.FreePlan, LookupKey: "free", Monthly: 20 * credit}))
		require.Equal(t, "refused", way(ben.UID))
		require.Equal(t, []string{"known", "known", "known"}, []string{way(ben.UID), way(anna.UID), way(anna.UID)})
	})
}

// A balance stays an amount of six digits, however it is charged: a tenth is none of
// the fractions that a double has.
func TestChargesLeaveExactBalances(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(db)
		anna := newUser(t, db)
		grant(t, s, anna, 3*credit/10, time.Hour)
		for _, left := range []string{"0.2", "0.1", "0"} {
			c := billing.Charge{CallID: ids.New("call"), UID: anna.UID, Toolset: "demo", Tool: "t", Global: true, Price: credit / 10}
			call(t, db, anna, c.CallID, "completed")
			err := db.AtOnce(t.Context(), anna.UID, func(tx database.Tx) error {
				require.NotNil(t, tx.Batch(), "an ordinary charge")
				_, err := s.Charge(t.Context(), tx, c)
				return err
			})
			require.NoError(t, err)
			var exact int64
			require.NoError(t, database.Scoped(db.Read(t.Context()), anna.UID).Table("credit_recharges").Where("balance = "+left).Count(&exact).Error)
			require.EqualValues(t, 1, exact, "the balance is %s", left)
		}
	})
}

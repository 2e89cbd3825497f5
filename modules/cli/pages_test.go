package cli_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/billing"
)

// Lists of more than one page are printed whole.
func TestListsAreWhole(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, env []string) {
		const many = 201
		uid := good(t, env, "user", "create", "anna")[:26]
		c, err := configs.Load(configs.Options{Environ: env})
		require.NoError(t, err)
		a, err := app.Open(t.Context(), app.Options{Config: c, Environ: apptest.Values(env), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, a.Close()) })
		require.NoError(t, a.DB.InTx(t.Context(), func(tx database.Tx) error {
			for n := range many {
				if err := audit.Write(tx, audit.Change{By: actor.Actor{UID: uid}, Action: "key.create", Subject: fmt.Sprintf("ak-%d", n)}, a.DB.Now()); err != nil {
					return err
				}
			}
			return nil
		}))
		for n := range many {
			r := billing.Recharge{ID: fmt.Sprintf("cr-%d", n), Amount: 1, Source: "gift", ExpiresAt: time.Now().Add(time.Hour)}
			require.NoError(t, a.Credits.Service.Grant(t.Context(), uid, r))
		}
		for _, list := range [][]string{{"audit"}, {"credit", "recharges"}} {
			var printed []struct{ Subject, ID string }
			require.NoError(t, json.Unmarshal([]byte(good(t, env, append(list, "--user", "anna", "--json")...)), &printed))
			found := map[string]bool{}
			for _, p := range printed {
				found[p.Subject+p.ID] = true
			}
			require.GreaterOrEqual(t, len(found), many, list)
			require.Len(t, printed, len(found), list)
		}
	})
}

package composio_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/connector/composio"
	"github.com/portico-run/portico/modules/connector/composio/composiotest"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/file"
	"github.com/portico-run/portico/modules/toolset/store"
)

var anna, ben = actor.Actor{UID: "u-anna", Scope: actor.Full}, actor.Actor{UID: "u-ben", Scope: actor.Full}

// connectedFile is two toolsets of the provider.
const connectedFile = `
{key: gmail, name: Gmail, labels: {en: Gmail}, type: external_oauth, global: false}
---
{key: alpha_vantage, name: Alpha, type: external_apikey, billing: 2, credential: {value: the-shared-key}}
`

// process is what one process has: the API of the accounts and all toolsets.
type process struct {
	*composio.Service
	connector *composio.Connector
	toolsets  *connectortest.Toolsets
}

func start(t *testing.T, db *database.DB, client *composio.Client) *process {
	t.Helper()
	s := connectortest.New(t, db, client, nil)
	return &process{s.Connections, s.Connector, s}
}

// connected is a process with the service's stand-in.
func connected(t *testing.T, db *database.DB) (*process, *composiotest.Server) {
	t.Helper()
	for _, a := range []actor.Actor{anna, ben} {
		connectortest.Exec(t, db, `INSERT INTO users (uid, name) VALUES (?, ?)`, a.UID, a.UID)
	}
	server := composiotest.Start(t)
	p := start(t, db, client(t, server))
	p.toolsets.Fill(t, connectedFile)
	return p, server
}

func TestRows(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) { composio.CheckRows(t, db) })
}

func TestAUserConnectsAnAccount(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, provider := connected(t, db)
		_, err := s.toolsets.Identify(t.Context(), anna, "gmail")
		require.EqualError(t, err, "E1020: Toolset not found: gmail.")
		status := func(want string) {
			t.Helper()
			got, err := s.Connection(t.Context(), anna, "gmail")
			require.NoError(t, err)
			require.Equal(t, want, got.Status)
			require.Equal(t, "gmail", got.IntegrationID)
		}
		got, err := s.Authorize(t.Context(), anna, "gmail", "https://portico.example.com/back")
		require.NoError(t, err)
		require.Equal(t, "gmail", got.App)
		require.Contains(t, got.RedirectURL, provider.URL+"/link/")
		require.Equal(t, "ca_pending_1", got.ConnectionRequestID)
		status("revoked") // until the user agrees
		account := provider.Agree(anna.UID, "gmail")
		status("active")
		status("active")

		found, err := s.toolsets.Identify(t.Context(), anna, "gmail")
		require.NoError(t, err)
		require.False(t, found.Global)
		m, c, err := s.toolsets.Method(t.Context(), anna, found, "GMAIL_SEND_EMAIL")
		require.NoError(t, err)
		require.Equal(t, toolset.Credential{Type: toolset.Account, Name: account, Username: anna.UID}, c)
		require.Equal(t, "20260901_00", m.Revision)
		_, _, err = s.toolsets.Method(t.Context(), anna, found, "GMAIL_FLY")
		require.Equal(t, "Method 'GMAIL_FLY' not found in toolset 'gmail'. Available methods: GMAIL_FETCH_EMAILS, GMAIL_GET_ATTACHMENT, GMAIL_SEND_EMAIL", errs.Message(err))
		_, err = s.toolsets.Identify(t.Context(), ben, "gmail")
		require.Error(t, err)

		// The provider ends it: the next call says what to do, and the user
		// connects again.
		require.NoError(t, s.connector.Lost(t.Context(), anna.UID, "gmail"))
		_, err = s.toolsets.Identify(t.Context(), anna, "gmail")
		require.Equal(t, errs.Forbidden, errs.CodeOf(err))
		status("active")

		require.NoError(t, s.Disconnect(t.Context(), anna, "gmail"))
		require.Zero(t, provider.Accounts(anna.UID))
		status("revoked")
		_, err = s.toolsets.Identify(t.Context(), anna, "gmail")
		require.EqualError(t, err, "E1020: Toolset not found: gmail.")
		require.ErrorIs(t, s.Disconnect(t.Context(), anna, "gmail"), composio.ErrNotConnected)
		provider.Agree(anna.UID, "gmail")
		status("active")
		_, err = s.toolsets.Identify(t.Context(), anna, "gmail")
		require.NoError(t, err, "installed again")

		for key, code := range map[string]errs.Code{"nothing": errs.ToolsetMissing, "alpha_vantage": errs.Invalid} {
			_, err := s.Authorize(t.Context(), anna, key, "")
			require.Equal(t, code, errs.CodeOf(err), key)
		}
		provider.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		})
		_, err = s.Authorize(t.Context(), ben, "gmail", "")
		require.Equal(t, errs.Unavailable, errs.CodeOf(err))
	})
}

// However many callers of however many processes need the shared account at
// once, one is made.
func TestTheSharedAccountIsMadeOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, provider := connected(t, db)
		other := start(t, db, client(t, provider))
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				process := []*process{s, other}[i%2]
				found, err := process.toolsets.Identify(t.Context(), ben, "alpha_vantage")
				if err == nil {
					_, _, err = process.toolsets.Method(t.Context(), ben, found, "ALPHA_VANTAGE_SYMBOL_SEARCH")
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, provider.Accounts(connectortest.SharedUser))
		require.Equal(t, 1, provider.Requests("POST /api/v3/connected_accounts"))

		// One that the provider no longer takes is made again.
		require.NoError(t, s.connector.Lost(t.Context(), connectortest.SharedUser, "alpha_vantage"))
		found, err := s.toolsets.Identify(t.Context(), ben, "alpha_vantage")
		require.NoError(t, err)
		require.Equal(t, connectortest.SharedUser, found.AccountUser)
		_, _, err = s.toolsets.Method(t.Context(), ben, found, "ALPHA_VANTAGE_SYMBOL_SEARCH")
		require.NoError(t, err)
		require.Equal(t, 1, provider.Accounts(connectortest.SharedUser), "what was there was taken over")

		// A process that died while it connected is not waited for for ever.
		connectortest.Exec(t, db, `UPDATE composio_connections SET status = 'connecting', connected_account_id = '', updated_at = ? WHERE integration_id = 'alpha_vantage'`, database.Now().Add(-2*time.Minute))
		_, _, err = s.toolsets.Method(t.Context(), ben, found, "ALPHA_VANTAGE_SYMBOL_SEARCH")
		require.NoError(t, err)

		// Another key is another account; the old one is ended.
		s.toolsets.Fill(t, strings.Replace(connectedFile, "the-shared-key", "the-next-key", 1))
		found, err = s.toolsets.Identify(t.Context(), ben, "alpha_vantage")
		require.NoError(t, err)
		_, before, err := s.toolsets.Method(t.Context(), ben, found, "ALPHA_VANTAGE_SYMBOL_SEARCH")
		require.NoError(t, err)
		_, again, err := s.toolsets.Method(t.Context(), ben, found, "ALPHA_VANTAGE_SYMBOL_SEARCH")
		require.NoError(t, err)
		require.Equal(t, before, again)
		require.Equal(t, 1, provider.Accounts(connectortest.SharedUser))
		require.Equal(t, 2, provider.Requests("POST /api/v3/connected_accounts"))

		q, err := found.Prices.Price("ALPHA_VANTAGE_SYMBOL_SEARCH", nil, nil)
		require.NoError(t, err)
		require.Equal(t, "2", q.Price.String())
	})
}

// A toolset that was deleted and is loaded again connects its shared account again.
func TestADeletedToolsetConnectsAgain(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, _ := connected(t, db)
		account := func() string {
			found, err := s.toolsets.Identify(t.Context(), ben, "alpha_vantage")
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, c, err := s.toolsets.Method(ctx, ben, found, "ALPHA_VANTAGE_SYMBOL_SEARCH")
			require.NoError(t, err)
			return c.Name
		}
		before := account()
		st := store.New(store.Deps{DB: db, Box: s.toolsets.Box, Connections: []store.Connections{s.connector}, Now: database.Now})
		require.NoError(t, st.Delete(t.Context(), "alpha_vantage"))
		s.toolsets.Fill(t, connectedFile)
		require.Equal(t, before, account())
	})
}

// A provider that fails takes its own toolsets out of an export, and no others.
func TestExportOfTheProvider(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, provider := connected(t, db)
		s.toolsets.Fill(t, `{key: weather, name: Weather, billing: 1, methods: [{name: forecast, endpoint: "https://weather.example.com"}]}`)
		got, failures, err := s.toolsets.Export(t.Context(), ben, nil)
		require.NoError(t, err)
		require.Empty(t, failures)
		require.Len(t, got, 2)
		require.Equal(t, "alpha_vantage", got[0].Key)
		require.Len(t, got[0].Tools, 1, "what is deprecated is not exported")
		require.Contains(t, string(got[0].Tools[0].InputSchema), `"required":["keywords","file_name_title"]`)

		down := start(t, db, client(t, provider, func(d *composio.ClientDeps) { d.BaseURL = "http://127.0.0.1:9" }))
		got, failures, err = down.toolsets.Export(t.Context(), ben, nil)
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, "weather", got[0].Key)
		require.Len(t, failures, 1)
		require.Equal(t, errs.Unavailable, errs.CodeOf(failures[0].Problem))
	})
}

// Prices by tiers need the provider's rates, when they are loaded.
func TestTiersNeedRates(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, _ := connected(t, db)
		f := []file.File{{Name: "x.yaml", Content: []byte(`{key: gmail, name: G, type: external_oauth, billing: {_default: {tier: standard}}}`)}}
		_, err := s.toolsets.Files.Apply(t.Context(), f)
		require.ErrorContains(t, err, `toolset gmail: price of "_default": the provider has no rates`)
		require.NoError(t, billing.New(billing.Deps{DB: db}).Service.SetRates(t.Context(), "composio", price.Rates{Standard: 299_000, Premium: 897_000, Margin: 1_000_000}))
		_, err = s.toolsets.Files.Apply(t.Context(), f)
		require.NoError(t, err)
	})
}

// A connection without an address to go to cannot be made.
func TestAuthorizeRefusesAnAnswerWithoutAnAddress(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, provider := connected(t, db)
		for _, address := range []string{"", "/link", "javascript:alert(1)", "https:", "not an address%"} {
			provider.Redirect = &address
			_, err := s.Authorize(t.Context(), anna, "gmail", "")
			require.Equal(t, errs.Unavailable, errs.CodeOf(err), address)
			require.Contains(t, err.Error(), "Composio gave no address")
		}
	})
}

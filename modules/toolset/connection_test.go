package toolset_test

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/composio"
	"github.com/portico-run/portico/modules/composio/composiotest"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/file"
)

// connectedFile is two toolsets of the provider.
const connectedFile = `
{key: gmail, name: Gmail, labels: {en: Gmail}, type: external_oauth, global: false}
---
{key: alpha_vantage, name: Alpha, type: external_apikey, billing: 2, credential: {value: the-shared-key}}
`

// connected is a service with the provider's stand-in.
func connected(t *testing.T, db *database.DB) (*inventory, *composiotest.Server) {
	t.Helper()
	s := service(t, db)
	server := composiotest.Start(t)
	deps := s.Deps
	e := egress.New(egress.Config{})
	t.Cleanup(e.Close)
	client := composio.New(composio.Deps{
		BaseURL: server.URL, Version: "v3", Key: composiotest.Key, Egress: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Timeout: 5 * time.Second, CacheLife: time.Minute, Upstream: upstream.New(upstream.Deps{Client: e, ResponseCap: 1 << 20}),
	})
	deps.Provider, deps.Accounts, deps.SharedUser, deps.Logger = client, client, "refly_global", slog.New(slog.DiscardHandler)
	made := inventoryOf(t, deps)
	_, err := made.Apply(t.Context(), []file.File{{Name: "connected.yaml", Content: []byte(connectedFile)}})
	require.NoError(t, err)
	return made, server
}

func TestAUserConnectsAnAccount(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, provider := connected(t, db)
		_, err := s.Identify(t.Context(), anna, "gmail")
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

		found, err := s.Identify(t.Context(), anna, "gmail")
		require.NoError(t, err)
		require.False(t, found.Global)
		m, c, err := s.Method(t.Context(), anna, found, "GMAIL_SEND_EMAIL")
		require.NoError(t, err)
		require.Equal(t, toolset.Credential{Type: toolset.Account, Name: account, Username: anna.UID}, c)
		require.Equal(t, "20260901_00", m.Revision)
		_, _, err = s.Method(t.Context(), anna, found, "GMAIL_FLY")
		require.Equal(t, "Method 'GMAIL_FLY' not found in toolset 'gmail'. Available methods: GMAIL_FETCH_EMAILS, GMAIL_GET_ATTACHMENT, GMAIL_SEND_EMAIL", errs.Message(err))
		_, err = s.Identify(t.Context(), ben, "gmail")
		require.Error(t, err)

		// The provider ends it: the next call says what to do, and the user
		// connects again.
		require.NoError(t, s.Lost(t.Context(), anna.UID, "gmail"))
		_, err = s.Identify(t.Context(), anna, "gmail")
		require.Equal(t, errs.Forbidden, errs.CodeOf(err))
		status("active")

		require.NoError(t, s.Disconnect(t.Context(), anna, "gmail"))
		require.Zero(t, provider.Accounts(anna.UID))
		status("revoked")
		_, err = s.Identify(t.Context(), anna, "gmail")
		require.EqualError(t, err, "E1020: Toolset not found: gmail.")
		require.ErrorIs(t, s.Disconnect(t.Context(), anna, "gmail"), toolset.ErrNotConnected)
		provider.Agree(anna.UID, "gmail")
		status("active")
		_, err = s.Identify(t.Context(), anna, "gmail")
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
		other := toolset.New(s.Deps).Service
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				process := []*toolset.Service{s.Service, other}[i%2]
				found, err := process.Identify(t.Context(), ben, "alpha_vantage")
				if err == nil {
					_, _, err = process.Method(t.Context(), ben, found, "ALPHA_VANTAGE_SYMBOL_SEARCH")
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, provider.Accounts("refly_global"))
		require.Equal(t, 1, provider.Requests("POST /api/v3/connected_accounts"))

		// One that the provider no longer takes is made again.
		require.NoError(t, s.Lost(t.Context(), "refly_global", "alpha_vantage"))
		found, err := s.Identify(t.Context(), ben, "alpha_vantage")
		require.NoError(t, err)
		require.Equal(t, "refly_global", found.ProviderUser)
		_, _, err = s.Method(t.Context(), ben, found, "ALPHA_VANTAGE_SYMBOL_SEARCH")
		require.NoError(t, err)
		require.Equal(t, 1, provider.Accounts("refly_global"), "what was there was taken over")

		// A process that died while it connected is not waited for for ever.
		toolset.Exec(t, db, `UPDATE composio_connections SET status = 'connecting', connected_account_id = '', updated_at = ? WHERE integration_id = 'alpha_vantage'`, database.Now().Add(-2*time.Minute))
		_, _, err = s.Method(t.Context(), ben, found, "ALPHA_VANTAGE_SYMBOL_SEARCH")
		require.NoError(t, err)

		// Another key is another account; the old one is ended.
		_, err = s.Apply(t.Context(), []file.File{{Name: "connected.yaml", Content: []byte(strings.Replace(connectedFile, "the-shared-key", "the-next-key", 1))}})
		require.NoError(t, err)
		found, err = s.Identify(t.Context(), ben, "alpha_vantage")
		require.NoError(t, err)
		_, before, err := s.Method(t.Context(), ben, found, "ALPHA_VANTAGE_SYMBOL_SEARCH")
		require.NoError(t, err)
		_, again, err := s.Method(t.Context(), ben, found, "ALPHA_VANTAGE_SYMBOL_SEARCH")
		require.NoError(t, err)
		require.Equal(t, before, again)
		require.Equal(t, 1, provider.Accounts("refly_global"))
		require.Equal(t, 2, provider.Requests("POST /api/v3/connected_accounts"))

		q, err := found.Prices.Price("ALPHA_VANTAGE_SYMBOL_SEARCH", nil, nil)
		require.NoError(t, err)
		require.Equal(t, "2", q.Price.String())
	})
}

// A provider that fails takes its own toolsets out of an export, and no others.
func TestExportOfTheProvider(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s, _ := connected(t, db)
		_, err := s.Apply(t.Context(), files(t, "weather.yaml"))
		require.NoError(t, err)
		got, failures, err := s.Export(t.Context(), ben, nil)
		require.NoError(t, err)
		require.Empty(t, failures)
		require.Len(t, got, 2)
		require.Equal(t, "alpha_vantage", got[0].Key)
		require.Len(t, got[0].Tools, 1, "what is deprecated is not exported")
		require.Contains(t, string(got[0].Tools[0].InputSchema), `"required":["keywords","file_name_title"]`)

		down := toolset.New(s.Deps).Service
		client := composio.New(composio.Deps{
			BaseURL: "http://127.0.0.1:9", Version: "v3", Key: "key", Timeout: time.Second, CacheLife: time.Minute,
			Upstream: upstream.New(upstream.Deps{Client: egress.New(egress.Config{}), ResponseCap: 1 << 20}),
		})
		down.Provider = client
		got, failures, err = down.Export(t.Context(), ben, nil)
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
		s := service(t, db)
		f := []file.File{{Name: "x.yaml", Content: []byte(`{key: gmail, name: G, type: external_oauth, billing: {_default: {tier: standard}}}`)}}
		_, err := s.Apply(t.Context(), f)
		require.ErrorContains(t, err, `toolset gmail: price of "_default": the provider has no rates`)
		require.NoError(t, billing.New(billing.Deps{DB: db}).Service.SetRates(t.Context(), "composio", price.Rates{Standard: 299_000, Premium: 897_000, Margin: 1_000_000}))
		_, err = s.Apply(t.Context(), f)
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

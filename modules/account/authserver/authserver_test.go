package authserver_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/authserver"
)

const (
	document  = "https://app.example.com/client.json"
	callback  = "http://localhost/callback"
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
)

var anna, ben = actor.Actor{UID: "u-anna"}, actor.Actor{UID: "u-ben"}

// web is the public internet.
type web struct {
	mu    sync.Mutex
	pages map[string]string
	asked int
}

// Do implements authserver.Fetcher.
func (w *web) Do(r *http.Request, allow []netip.Prefix) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	page, ok := w.pages[r.URL.String()]
	if !ok || allow != nil {
		return nil, errors.New("there is nothing")
	}
	if to, moved := strings.CutPrefix(page, "to "); moved {
		r = r.Clone(r.Context())
		r.URL, _ = url.Parse(to)
		page = w.pages[to]
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(page)), Request: r}, nil
}

type fixture struct {
	*authserver.Service
	db  *database.DB
	now time.Time
	web *web
}

func setup(t *testing.T, db *database.DB) *fixture {
	t.Helper()
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES ('u-anna', 'anna'), ('u-ben', 'ben')").Error
	}))
	box, err := secretbox.New(strings.Repeat("ab", 32))
	require.NoError(t, err)
	f := &fixture{db: db, now: database.Now(), web: &web{pages: map[string]string{document: describe(document, callback)}}}
	now := func() time.Time { return f.now }
	accounts := account.New(account.Deps{DB: db, Logger: slog.New(slog.DiscardHandler), TokenKeys: signing.Keys{[]byte(strings.Repeat("s", 32))}, Now: now})
	f.Service = authserver.New(authserver.Deps{
		DB: db, Accounts: accounts.Service, Box: box, Fetch: f.web, Logger: slog.New(slog.DiscardHandler), Now: now,
		Settings: authserver.Settings{Endpoint: "https://portico.example.com", Resource: "/mcp/oauth", Consent: "/console/authorize"},
	}).Service
	return f
}

func describe(id string, redirects ...string) string {
	return fmt.Sprintf(`{"client_id":%q,"client_name":"Notes","redirect_uris":["%s"],"client_uri":"https://app.example.com"}`, id, strings.Join(redirects, `","`))
}

func request(id string) authserver.Request {
	return authserver.Request{ResponseType: "code", ClientID: id, RedirectURI: callback, Challenge: challenge, Method: "S256"}
}

// letIn lets an app in, and returns its tokens.
func (f *fixture) letIn(t *testing.T, a actor.Actor) authserver.Tokens {
	t.Helper()
	tokens, err := f.Redeem(t.Context(), f.redemption(t, a))
	require.NoError(t, err)
	return tokens
}

func (f *fixture) redemption(t *testing.T, a actor.Actor) authserver.Redemption {
	t.Helper()
	to, err := f.Decide(t.Context(), a, request(document), true)
	require.NoError(t, err)
	u, err := url.Parse(to)
	require.NoError(t, err)
	return authserver.Redemption{Code: u.Query().Get("code"), ClientID: document, Redirect: callback, Verifier: verifier}
}

func TestRowsAreAsTheSchemaHasThem(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, row := range authserver.Rows() {
			databasetest.CheckRow(t, db, row)
		}
	})
}

// An app may describe itself by a document at the address that is its id. What is no
// such document is nobody, and what is not public is not asked for.
func TestAppsDescribeThemselves(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		for range 3 {
			asked, err := f.Read(t.Context(), request(document))
			require.NoError(t, err)
			require.Equal(t, authserver.Asked{Name: "Notes", App: "app.example.com", Place: "localhost", Scope: "mcp"}, asked)
		}
		require.Equal(t, 1, f.web.asked, "it is known for a while")
		f.web.pages["https://app.example.com/odd.json"] = strings.Replace(describe("https://app.example.com/odd.json", callback), "Notes", `No\u202ete\u0000\u0007s\n`, 1)
		asked, err := f.Read(t.Context(), request("https://app.example.com/odd.json"))
		require.NoError(t, err)
		require.Equal(t, "Notes", asked.Name)
		before := f.web.asked
		f.web.pages[document] = describe(document, "https://app.example.com/elsewhere")
		f.now = f.now.Add(time.Hour)
		_, err = f.Read(t.Context(), request(document))
		require.ErrorContains(t, err, "has not registered", "but not for ever")
		require.Equal(t, before+1, f.web.asked)
		const at = "https://app.example.com/"
		f.web.pages[at+"target"] = describe(at+"moved", callback)
		for name, page := range map[string]string{
			"of-another": describe(document, callback), "no-json": "<html>", "large": describe(at+"large", callback) + strings.Repeat(" ", 20<<10),
			"nowhere-to-go": describe(at + "nowhere-to-go")[:60] + `"}`, "moved": "to " + at + "target",
		} {
			f.web.pages[at+name] = page
			_, err := f.Read(t.Context(), request(at+name))
			require.Error(t, err, name)
		}
		before = f.web.asked
		for _, id := range []string{"http://app.example.com/client.json", "https://app.example.com", "https://app.example.com/", "https://a@app.example.com/x", "https://app.example.com/../x", "https://app.example.com/x#y", at + strings.Repeat("n", 5000)} {
			_, err := f.Read(t.Context(), request(id))
			require.ErrorContains(t, err, "not known here", id)
		}
		require.Equal(t, before, f.web.asked)
	})
	guarded := egress.New(egress.Config{})
	defer guarded.Close()
	box, err := secretbox.New(strings.Repeat("ab", 32))
	require.NoError(t, err)
	s := authserver.New(authserver.Deps{Fetch: guarded, Box: box, Now: time.Now}).Service
	_, err = s.Read(t.Context(), request("https://127.0.0.1:9/client.json"))
	require.ErrorContains(t, errors.Unwrap(err), "not a permitted destination")
}

// Codes and refresh tokens end, and what nobody takes up is forgotten.
func TestSecretsOfAppsEnd(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		late := f.redemption(t, anna)
		f.now = f.now.Add(61 * time.Second)
		_, err := f.Redeem(t.Context(), late)
		require.Error(t, err)
		apps, err := f.Apps(t.Context(), anna)
		require.NoError(t, err)
		require.Empty(t, apps)

		tokens := f.letIn(t, anna)
		for range 3 { // each token gives it another 60 days
			f.now = f.now.Add(59 * 24 * time.Hour)
			tokens, err = f.Refresh(t.Context(), authserver.Renewal{Token: tokens.Refresh, ClientID: document})
			require.NoError(t, err)
		}
		f.now = f.now.Add(61 * 24 * time.Hour)
		_, err = f.Refresh(t.Context(), authserver.Renewal{Token: tokens.Refresh, ClientID: document})
		require.Error(t, err)
		f.letIn(t, anna)
		var rows int64
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Table("app_grants").Count(&rows).Error)
		require.EqualValues(t, 1, rows)
	})
}

// Of many who redeem a code at once, one gets tokens at most, and of many who refresh;
// a user lets in so many apps and no more.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		once := func(get func() (authserver.Tokens, error)) int {
			var (
				mu  sync.Mutex
				all sync.WaitGroup
				got int
			)
			for range 8 {
				all.Go(func() {
					if _, err := get(); err == nil {
						mu.Lock()
						defer mu.Unlock()
						got++
					}
				})
			}
			all.Wait()
			return got
		}
		r := f.redemption(t, anna)
		require.Equal(t, 1, once(func() (authserver.Tokens, error) { return f.Redeem(t.Context(), r) }))
		tokens := f.letIn(t, anna)
		require.Equal(t, 1, once(func() (authserver.Tokens, error) {
			return f.Refresh(t.Context(), authserver.Renewal{Token: tokens.Refresh, ClientID: document})
		}))
		for range 100 {
			f.letIn(t, ben)
		}
		_, err := f.Decide(t.Context(), ben, request(document), true)
		require.ErrorContains(t, err, "100 apps")
		f.letIn(t, anna)
	})
}

// Nothing that is one user's is reached as another.
func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		tokens := f.letIn(t, anna)
		apps, err := f.Apps(t.Context(), anna)
		require.NoError(t, err)
		require.Len(t, apps, 1)
		tries := map[string]func(t *testing.T){
			"Apps": func(t *testing.T) {
				his, err := f.Apps(t.Context(), ben)
				require.NoError(t, err)
				require.Empty(t, his)
			},
			"End":        func(t *testing.T) { require.ErrorIs(t, f.End(t.Context(), ben, apps[0].AppID), authserver.ErrNoApp) },
			"Decide":     func(t *testing.T) { f.letIn(t, ben) },
			"Read":       func(*testing.T) {}, // of nobody
			"Registered": func(*testing.T) {}, // of nobody
			"Redeem":     func(*testing.T) {}, // by a secret
			"Refresh":    func(*testing.T) {}, // by a secret
			"Revoke":     func(*testing.T) {}, // by a secret
		}
		for method := range reflect.TypeFor[*authserver.Service]().Methods() {
			require.Contains(t, tries, method.Name)
			t.Run(method.Name, tries[method.Name])
		}
		_, err = f.Refresh(t.Context(), authserver.Renewal{Token: tokens.Refresh, ClientID: document})
		require.NoError(t, err, "hers is as it was")
	})
}

// What an app asks for is what people are told and what it gets, at most: a refreshed
// token may do less than the one before, and later again as much, but never more.
func TestScopesOfAppsOnlyNarrow(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		accounts := account.New(account.Deps{DB: db, Logger: slog.New(slog.DiscardHandler), TokenKeys: signing.Keys{[]byte(strings.Repeat("s", 32))}, Now: func() time.Time { return f.now }})
		may := func(tokens authserver.Tokens) {
			t.Helper()
			who, err := accounts.Service.Authenticate(t.Context(), httpapi.Credentials{APIKey: tokens.Access})
			require.NoError(t, err)
			require.Equal(t, tokens.Scope, string(who.Scope))
		}
		for asked, want := range map[string]string{"": "mcp", "  ": "mcp", "mcp": "mcp", "mcp:read": "mcp:read", "mcp:read mcp": "mcp", "offline_access mcp:read": "mcp:read"} {
			r := request(document)
			r.Scope = asked
			said, err := f.Read(t.Context(), r)
			require.NoError(t, err, asked)
			require.Equal(t, want, said.Scope, asked)
			to, err := f.Decide(t.Context(), anna, r, true)
			require.NoError(t, err)
			u, err := url.Parse(to)
			require.NoError(t, err)
			tokens, err := f.Redeem(t.Context(), authserver.Redemption{Code: u.Query().Get("code"), ClientID: document, Redirect: callback, Verifier: verifier})
			require.NoError(t, err)
			require.Equal(t, want, tokens.Scope, asked)
			may(tokens)
			for _, next := range []string{"", "mcp:read", "", "mcp", "mcp mcp:read", "nonsense", "mcp:read"} {
				before := tokens
				tokens, err = f.Refresh(t.Context(), authserver.Renewal{Token: before.Refresh, ClientID: document, Scope: next})
				if next == "nonsense" || strings.HasPrefix(next+" ", "mcp ") && want != "mcp" {
					require.Error(t, err, "%q, then %q", asked, next)
					tokens = before // it is good still
					continue
				}
				require.NoError(t, err, "%q, then %q", asked, next)
				require.Equal(t, strings.Fields(next + " " + want)[0], tokens.Scope)
				may(tokens)
			}
		}
		apps, err := f.Apps(t.Context(), anna)
		require.NoError(t, err)
		kinds := map[string]int{}
		for _, a := range apps {
			kinds[a.Scope]++
		}
		require.Equal(t, map[string]int{"mcp": 4, "mcp:read": 2}, kinds)
		r := request(document)
		r.Scope = "openid write"
		_, err = f.Decide(t.Context(), anna, r, true)
		require.ErrorContains(t, err, "asks for nothing that there is")
	})
}

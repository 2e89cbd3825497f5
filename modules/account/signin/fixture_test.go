package signin_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/signin"
	"github.com/portico-run/portico/modules/run"
)

var secret = []byte("a secret of thirty-two bytes, at least")

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// runs knows one run of one user.
type runs struct{ owner string }

const herRun = "ar-hers"

func (r *runs) Version(_ context.Context, a actor.Actor, runID string, version *int) (int, error) {
	if a.UID != r.owner || runID != herRun || version != nil && *version > 1 {
		return 0, run.ErrMissing
	}
	if version != nil {
		return *version, nil
	}
	return 1, nil
}

// fixture is a server that people sign in to.
type fixture struct {
	t        *testing.T
	db       *database.DB
	clock    *clock
	accounts *account.Module
	signin   *signin.Module
	api      *httpapi.API
	runs     *runs
	alice    account.User
	bob      account.User
}

func setup(t *testing.T, db *database.DB) *fixture {
	t.Helper()
	f := &fixture{t: t, db: db, clock: &clock{now: database.Now()}, runs: &runs{}}
	f.accounts = account.New(account.Deps{DB: db, TokenKeys: signing.Keys{secret}, TokenLife: 24 * time.Hour, Logger: quiet(), Now: f.clock.Now})
	*f = *f.with(signin.Settings{Endpoint: "http://localhost:5800", Console: "/console"})
	f.alice, f.bob = f.user("alice"), f.user("bob")
	f.runs.owner = f.alice.UID
	return f
}

// with is the same server with other settings.
func (f *fixture) with(settings signin.Settings) *fixture {
	other := *f
	other.signin = signin.New(signin.Deps{DB: f.db, Accounts: f.accounts, Runs: f.runs, Settings: settings, Logger: quiet(), Now: f.clock.Now})
	other.api = httpapi.New(httpapi.Deps{
		Auth: f.accounts.Service, Still: f.accounts.Service.Still, Logger: quiet(), BodyLimit: 1 << 20, Version: "test", Origins: []string{"https://app.example"},
	})
	f.accounts.Register(other.api)
	other.signin.Register(other.api)
	return &other
}

func (f *fixture) user(name string) account.User {
	f.t.Helper()
	u, err := f.accounts.Service.CreateUser(f.t.Context(), name, name+"@example.com")
	require.NoError(f.t, err)
	return u
}

func (f *fixture) key(u account.User) (id, plain string) {
	f.t.Helper()
	k, text, err := f.accounts.Service.CreateKey(f.t.Context(), actor.Actor{UID: u.UID}, "ci", 0)
	require.NoError(f.t, err)
	return k.ID, text.Reveal()
}

// code is that of a link for a user.
func (f *fixture) code(u account.User) string {
	f.t.Helper()
	link, expires, err := f.signin.Service.Link(f.t.Context(), u)
	require.NoError(f.t, err)
	require.Equal(f.t, f.clock.Now().Add(5*time.Minute), expires)
	code, ok := strings.CutPrefix(link, "http://localhost:5800/console/login?code=")
	require.True(f.t, ok, link)
	return code
}

type answer struct {
	status int
	header http.Header
	raw    string
	data   struct {
		UID, Name, Email, Role, Credential, KeyID, SessionID string
		Scopes                                               []string
		Ticket                                               string
	}
	errCode, errMsg string
	cookie          *http.Cookie // that the answer sets
}

// ask makes a request; headers are pairs.
func (f *fixture) ask(method, path, body string, headers ...string) answer {
	f.t.Helper()
	r := httptest.NewRequestWithContext(f.t.Context(), method, "http://localhost:5800"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		if headers[i] == "From" {
			r.RemoteAddr = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	f.api.ServeHTTP(w, r)
	raw, err := io.ReadAll(w.Result().Body)
	require.NoError(f.t, err)
	a := answer{status: w.Code, header: w.Header(), raw: string(raw)}
	for _, c := range w.Result().Cookies() {
		if c.Name == httpapi.AccessCookie {
			a.cookie = c
		}
	}
	var envelope struct {
		Data            json.RawMessage
		ErrCode, ErrMsg string
	}
	require.NoError(f.t, json.Unmarshal(raw, &envelope), a.raw)
	a.errCode, a.errMsg = envelope.ErrCode, envelope.ErrMsg
	if strings.HasPrefix(string(envelope.Data), "{") {
		require.NoError(f.t, json.Unmarshal(envelope.Data, &a.data), a.raw)
	}
	return a
}

// in signs a user in by a link and returns the header with the cookie.
func (f *fixture) in(u account.User) (cookie, sessionID string) {
	f.t.Helper()
	a := f.ask("POST", "/v1/auth/session", `{"code":"`+f.code(u)+`"}`)
	require.Equal(f.t, 200, a.status, a.raw)
	return a.cookie.Name + "=" + a.cookie.Value, a.data.SessionID
}

func (f *fixture) me(cookie string) answer {
	f.t.Helper()
	return f.ask("GET", "/v1/auth/me", "", "Cookie", cookie)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

package signin_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ory/fosite/token/jwt"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/modules/account/oidc"
	"github.com/portico-run/portico/modules/account/oidc/oidctest"
	"github.com/portico-run/portico/modules/account/signin"
)

const oidcEndpoint = "http://localhost:5800"

// browser goes where it is sent and keeps cookies, between this server, which is
// called in process, and the provider.
type browser struct {
	t       *testing.T
	f       *fixture
	cookies map[string]string
}

// get asks this server and returns the status and where it sends the browser.
func (b *browser) get(path string) (status int, to string) {
	b.t.Helper()
	r := httptest.NewRequestWithContext(b.t.Context(), http.MethodGet, oidcEndpoint+path, nil)
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	b.f.api.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
			continue
		}
		require.True(b.t, c.HttpOnly)
		require.Equal(b.t, http.SameSiteLaxMode, c.SameSite)
		b.cookies[c.Name] = c.Value
	}
	return w.Code, w.Header().Get("Location")
}

// atProvider follows the way to the provider and returns the way back.
func (b *browser) atProvider(to string) string {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, to, nil)
	require.NoError(b.t, err)
	resp, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(b.t, err)
	require.NoError(b.t, resp.Body.Close())
	back, ok := strings.CutPrefix(resp.Header.Get("Location"), oidcEndpoint)
	require.True(b.t, ok, "%d %s", resp.StatusCode, resp.Header.Get("Location"))
	return back
}

// signIn goes all the way and returns where it ends.
func (b *browser) signIn(query string) string {
	b.t.Helper()
	status, to := b.get("/v1/auth/oidc/start" + query)
	require.Equal(b.t, 303, status)
	status, to = b.get(b.atProvider(to))
	require.Equal(b.t, 303, status)
	return to
}

func (b *browser) me() answer {
	return b.f.me(httpapi.AccessCookie + "=" + b.cookies[httpapi.AccessCookie])
}

func withProvider(f *fixture, rule signin.SignUp, link bool) (*fixture, *oidctest.Provider, func() *browser) {
	f.t.Helper()
	p := oidctest.Start(f.t, oidcEndpoint+"/v1/auth/oidc/callback")
	f = f.with(signin.Settings{
		Endpoint: oidcEndpoint, Console: "/console", SignUp: rule, LinkEmail: link,
		OIDC: oidc.Settings{Issuer: p.Issuer, ClientID: oidctest.ClientID, Secret: oidctest.Secret, Keys: signing.Keys{secret}},
	})
	return f, p, func() *browser { return &browser{t: f.t, f: f, cookies: map[string]string{}} }
}

func TestPeopleSignInWithTheProvider(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f, p, open := withProvider(setup(t, db), signin.Open, false)
		p.As(oidctest.Person{Subject: "s-1", Name: "carol", Email: "carol@example.com", Verified: true})
		b := open()
		require.Equal(t, "/console/runs?x=1", b.signIn("?next="+url.QueryEscape("/console/runs?x=1")))
		require.NotContains(t, b.cookies, "_rf_oidc")
		me := b.me()
		require.Equal(t, []string{"carol", "carol@example.com", "session"}, []string{me.data.Name, me.data.Email, me.data.Credential})
		again := open()
		p.As(oidctest.Person{Subject: "s-1", Name: "renamed", Email: "other@example.com", Verified: true})
		require.Equal(t, "/console", again.signIn(""))
		require.Equal(t, me.data.UID, again.me().data.UID, "the subject says who it is")

		p.As(oidctest.Person{Subject: "s-2", Name: "carol", Email: "alice@example.com", Verified: true})
		other := open()
		other.signIn("")
		require.Regexp(t, `^s-2-[0-9a-f]{16}$`, other.me().data.Name, "the name is taken")
		require.Empty(t, other.me().data.Email, "so is the address")
		require.NotEqual(t, f.alice.UID, other.me().data.UID)

		p.As(oidctest.Person{Subject: "s-3", Name: "dave", Email: "dave@example.com", Verified: false})
		unverified := open()
		unverified.signIn("")
		require.Equal(t, "dave", unverified.me().data.Name)
		require.Empty(t, unverified.me().data.Email)
		require.NoError(t, f.accounts.Service.Disable(t.Context(), me.data.UID, true))
		p.As(oidctest.Person{Subject: "s-1"})
		require.Equal(t, "/console/login?failed=oidc", open().signIn(""), "her user is disabled")
	})
}

func TestTheRuleOfSigningUpHoldsForTheProvidersPeople(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f, p, open := withProvider(setup(t, db), signin.Off, false)
		p.As(oidctest.Person{Subject: "s-1", Name: "carol", Email: "alice@example.com", Verified: true})
		require.Equal(t, "/console/login?failed=oidc", open().signIn(""))
		f, p, open = withProvider(f, signin.Invite, true)
		p.As(oidctest.Person{Subject: "s-1", Name: "carol", Email: "carol@example.com", Verified: true})
		require.Equal(t, "/console/login?failed=oidc", open().signIn(""))
		invitation, err := f.signin.Service.Invite(t.Context(), actor.Actor{UID: audit.Operator})
		require.NoError(t, err)
		b := open()
		require.Equal(t, "/console", b.signIn("?invite="+invitation.Code))
		require.Equal(t, "carol", b.me().data.Name)
		p.As(oidctest.Person{Subject: "s-2", Email: "Alice@Example.com", Verified: "true"})
		b = open()
		require.Equal(t, "/console", b.signIn(""))
		require.Equal(t, f.alice.UID, b.me().data.UID, "linked by the verified address")
		p.As(oidctest.Person{Subject: "s-3", Email: "alice@example.com", Verified: true})
		require.Equal(t, "/console/login?failed=oidc", open().signIn(""), "she is somebody else already")
		p.As(oidctest.Person{Subject: "s-4", Email: "bob@example.com", Verified: false})
		require.Equal(t, "/console/login?failed=oidc", open().signIn(""), "anybody can claim an address")
	})
}

func TestOnlyTheBrowserThatBeganComesBack(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f, p, open := withProvider(setup(t, db), signin.Open, false)
		p.As(oidctest.Person{Subject: "s-1", Name: "carol"})
		const failed = "/console/login?failed=oidc"
		victim, attacker := open(), open()
		_, to := attacker.get("/v1/auth/oidc/start")
		his := attacker.atProvider(to)
		_, back := victim.get(his)
		require.Equal(t, failed, back, "another browser has no flow")
		victim.get("/v1/auth/oidc/start")
		_, back = victim.get(his)
		require.Equal(t, failed, back, "or another one's")
		require.NotContains(t, victim.cookies, httpapi.AccessCookie)
		_, back = attacker.get(his)
		require.Equal(t, "/console", back)
		slow := open()
		_, to = slow.get("/v1/auth/oidc/start")
		late := slow.atProvider(to)
		f.clock.advance(oidc.FlowLife + 1e9)
		_, back = slow.get(late)
		require.Equal(t, failed, back, "too late")
	})
}

func TestForgedTokensOfTheProviderLetNobodyIn(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		_, p, open := withProvider(setup(t, db), signin.Open, false)
		p.As(oidctest.Person{Subject: "s-1", Name: "carol"})
		p.Forge(func(c *jwt.IDTokenClaims) { c.Issuer = "https://other.example" })
		require.Equal(t, "/console/login?failed=oidc", open().signIn(""), "of another issuer")
		p.Forge(nil)
		for _, parameter := range []string{"nonce", "state", "code_challenge"} {
			b := open()
			_, to := b.get("/v1/auth/oidc/start")
			u, err := url.Parse(to)
			require.NoError(t, err)
			q := u.Query()
			require.Equal(t, "S256", q.Get("code_challenge_method"))
			require.NotEmpty(t, q.Get(parameter))
			q.Set(parameter, strings.Repeat("x", len(q.Get(parameter))))
			u.RawQuery = q.Encode()
			_, back := b.get(b.atProvider(u.String()))
			require.Equal(t, "/console/login?failed=oidc", back, "another %s", parameter)
			require.NotContains(t, b.cookies, httpapi.AccessCookie)
		}
		for _, next := range []string{"//evil.example", "https://evil.example", `/\evil.example`, "javascript:alert(1)", "evil", "/\t/evil.example"} {
			require.Equal(t, "/console", open().signIn("?next="+url.QueryEscape(next)), next)
		}
	})
}

// Links and redirects lead to the console where it is, and to none where there is none.
func TestLinksLeadToTheConsole(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		operator := actor.Actor{UID: audit.Operator}
		f, p, _ := withProvider(setup(t, db), signin.Invite, false)
		for console, home := range map[string]string{"/ui": "/ui", "": "/"} {
			f = f.with(signin.Settings{
				Endpoint: oidcEndpoint, Console: console, SignUp: signin.Invite,
				OIDC: oidc.Settings{Issuer: p.Issuer, ClientID: oidctest.ClientID, Secret: oidctest.Secret, Keys: signing.Keys{secret}},
			})
			invitation, err := f.signin.Service.Invite(t.Context(), operator)
			require.NoError(t, err)
			link, _, err := f.signin.Service.Link(t.Context(), f.alice)
			if console == "" {
				require.Equal(t, errs.Conflict, errs.CodeOf(err))
				require.Empty(t, invitation.Link)
			} else {
				require.NoError(t, err)
				require.Contains(t, link, oidcEndpoint+"/ui/login?code=")
				require.Equal(t, oidcEndpoint+"/ui/signup?invite="+invitation.Code, invitation.Link)
			}
			p.As(oidctest.Person{Subject: "of " + home, Name: "eve"})
			b := &browser{t: t, f: f, cookies: map[string]string{}}
			require.Equal(t, map[string]string{"/ui": "/ui/login?failed=oidc", "": "/?failed=oidc"}[console], b.signIn(""))
			require.Equal(t, home, b.signIn("?invite="+invitation.Code))
		}
	})
}

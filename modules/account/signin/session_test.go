package signin_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/account/login"
	"github.com/portico-run/portico/modules/account/signin"
)

func TestASessionLastsFromSigningInToSigningOut(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		keyID, key := f.key(f.alice)
		for how, body := range map[string]string{login.ByKey: `{"apiKey":"` + key + `"}`, login.ByLink: `{"code":"` + f.code(f.alice) + `"}`} {
			a := f.ask("POST", "/v1/auth/session", body, "User-Agent", "browser\x00"+strings.Repeat("ü", 200), "From", "192.0.2.7:4711")
			require.Equal(t, 200, a.status, a.raw)
			require.Equal(t, []string{f.alice.UID, "alice", "alice@example.com", "user", "session"}, []string{a.data.UID, a.data.Name, a.data.Email, a.data.Role, a.data.Credential})
			require.Equal(t, "no-store", a.header.Get("Cache-Control"))
			require.True(t, a.cookie.HttpOnly)
			require.Equal(t, http.SameSiteLaxMode, a.cookie.SameSite)
			require.Equal(t, "/", a.cookie.Path)
			cookie := a.cookie.Name + "=" + a.cookie.Value
			me := f.me(cookie)
			require.Equal(t, a.data, me.data)
			require.Equal(t, []string{}, me.data.Scopes)
			for _, header := range []string{"Bearer " + a.cookie.Value} {
				require.Equal(t, a.data.SessionID, f.ask("GET", "/v1/auth/me", "", "Authorization", header).data.SessionID)
			}
			sessions, err := f.accounts.Sessions.List(t.Context(), actor.Actor{UID: f.alice.UID})
			require.NoError(t, err)
			require.Len(t, sessions, 1)
			require.Equal(t, how, sessions[0].Method)
			require.Equal(t, "192.0.2.7", sessions[0].IP)
			require.Equal(t, "browser"+strings.Repeat("ü", 124), sessions[0].UserAgent)
			if how == login.ByKey {
				require.Equal(t, keyID, sessions[0].KeyID)
				require.Equal(t, keyID, me.data.KeyID, "rules and rates of the key count here, too")
			}
			out := f.ask("DELETE", "/v1/auth/session", "", "Cookie", cookie)
			require.Equal(t, 200, out.status, out.raw)
			require.Negative(t, out.cookie.MaxAge)
			require.Empty(t, out.cookie.Value)
			require.Equal(t, 401, f.me(cookie).status, "the token counts no more")
			require.Equal(t, 200, f.ask("DELETE", "/v1/auth/session", "", "Cookie", cookie).status, "signing out twice is no error")
		}
	})
}

func TestWhateverEndsAUserOrAKeyEndsSessions(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		alice := actor.Actor{UID: f.alice.UID}
		keyID, key := f.key(f.alice)
		byKey := f.ask("POST", "/v1/auth/session", `{"apiKey":"`+key+`"}`)
		withKey := byKey.cookie.Name + "=" + byKey.cookie.Value
		first, firstID := f.in(f.alice)
		second, _ := f.in(f.alice)
		require.Equal(t, 200, f.me(withKey).status)
		require.NoError(t, f.accounts.Service.RevokeKey(t.Context(), alice, keyID))
		require.Equal(t, 401, f.me(withKey).status, "the key is revoked")
		require.Equal(t, 200, f.me(first).status)
		require.Equal(t, 200, f.ask("DELETE", "/v1/auth/sessions/"+firstID, "", "Cookie", second).status)
		require.Equal(t, 401, f.me(first).status, "ended in another browser")
		require.Equal(t, 404, f.ask("DELETE", "/v1/auth/sessions/"+firstID, "", "Cookie", second).status)
		require.NoError(t, f.accounts.Service.Disable(t.Context(), alice.UID, true))
		require.Equal(t, 401, f.me(second).status, "the user is disabled")
		require.NoError(t, f.accounts.Service.Disable(t.Context(), alice.UID, false))
		require.Equal(t, 200, f.me(second).status)
		f.clock.advance(24*time.Hour + time.Second)
		require.Equal(t, 401, f.me(second).status, "the session is over")
		sessions, err := f.accounts.Sessions.List(t.Context(), alice)
		require.NoError(t, err)
		require.Empty(t, sessions)
	})
}

// A host that signs with the same secret names no session.
func TestATokenWithoutASessionGoesOn(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		token, err := f.accounts.Service.IssueToken(t.Context(), actor.Actor{UID: f.alice.UID})
		require.NoError(t, err)
		me := f.ask("GET", "/v1/auth/me", "", "Authorization", "Bearer "+token)
		require.Equal(t, "token", me.data.Credential)
		require.Empty(t, me.data.SessionID)
		require.Equal(t, 200, f.ask("DELETE", "/v1/auth/session", "", "Cookie", httpapi.AccessCookie+"="+token).status)
		require.Equal(t, 200, f.ask("GET", "/v1/auth/me", "", "Authorization", "Bearer "+token).status)
	})
}

func TestALinkIsGoodOnceAndForFiveMinutes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		code := f.code(f.alice)
		var won, lost atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, err := f.signin.Service.SignIn(t.Context(), signin.Proof{Code: code}, signin.Client{IP: fmt.Sprint("192.0.2.", won.Load(), lost.Load())})
				if err == nil {
					won.Add(1)
				} else {
					lost.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, won.Load())
		require.EqualValues(t, 7, lost.Load())
		late := f.code(f.alice)
		f.clock.advance(5*time.Minute + time.Second)
		require.Equal(t, 401, f.ask("POST", "/v1/auth/session", `{"code":"`+late+`"}`).status)
		var stored []string
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw("SELECT code_hash FROM one_time_codes").Scan(&stored).Error)
		require.NotContains(t, stored, code, "the database does not know the code")
		require.NoError(t, f.accounts.Service.Disable(t.Context(), f.bob.UID, true))
		his := f.code(f.bob)
		require.Equal(t, 401, f.ask("POST", "/v1/auth/session", `{"code":"`+his+`"}`, "From", "192.0.2.99:1").status, "his user is disabled")
	})
}

// Whoever is refused learns nothing but that.
func TestEveryFailureHasTheSameWords(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		_, disabled := f.key(f.bob)
		require.NoError(t, f.accounts.Service.Disable(t.Context(), f.bob.UID, true))
		sandbox, err := f.accounts.Service.TemporaryKey(t.Context(), actor.Actor{UID: f.alice.UID})
		require.NoError(t, err)
		seen := map[string]bool{}
		for i, body := range []string{
			`{"apiKey":"rf_none"}`, `{"apiKey":"` + disabled + `"}`, `{"apiKey":"` + sandbox.Reveal() + `"}`, `{"code":"none"}`,
			`{"email":"alice@example.com","password":"wrong"}`, `{"email":"nobody@example.com","password":"wrong"}`, `{"email":"bob@example.com","password":"wrong"}`,
			`{"email":"alice@example.com","password":"` + strings.Repeat("x", 1025) + `"}`,
		} {
			a := f.ask("POST", "/v1/auth/session", body, "From", fmt.Sprintf("192.0.2.%d:1", i))
			require.Equal(t, 401, a.status, body)
			require.Nil(t, a.cookie)
			_, words, _ := strings.Cut(a.raw, `"errCode"`)
			words, _, _ = strings.Cut(words, `"traceId"`)
			seen[words] = true
		}
		require.Len(t, seen, 1, "%v", seen)
		for _, body := range []string{`{}`, `{"apiKey":"a","code":"b"}`, `{"email":"a"}`, `{"password":"a"}`, `{"code":"a","password":"b"}`} {
			require.Equal(t, 400, f.ask("POST", "/v1/auth/session", body).status, body)
		}
	})
}

func TestFailuresAreLimitedByAddressAndByAccount(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		try := func(body string, ip int) answer {
			return f.ask("POST", "/v1/auth/session", body, "From", fmt.Sprintf("192.0.2.%d:1", ip))
		}
		for range 5 {
			require.Equal(t, 401, try(`{"code":"none"}`, 1).status)
		}
		late := try(`{"code":"`+f.code(f.alice)+`"}`, 1)
		require.Equal(t, 429, late.status)
		require.Equal(t, "60", late.header.Get("Retry-After"))
		for i := range 5 {
			require.Equal(t, 401, try(`{"email":"alice","password":"wrong"}`, 10+i).status)
		}
		require.Equal(t, 429, try(`{"email":"ALICE","password":"wrong"}`, 20).status, "from elsewhere")
		require.Equal(t, 401, try(`{"email":"bob","password":"wrong"}`, 20).status, "another account")
		f.clock.advance(time.Minute + time.Second)
		require.Equal(t, 200, try(`{"code":"`+f.code(f.alice)+`"}`, 1).status)
		for range 12 {
			require.Equal(t, 200, try(`{"code":"`+f.code(f.alice)+`"}`, 1).status, "who succeeds is not limited")
		}
	})
}

func TestTheOldestSessionMakesRoom(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		oldest, _ := f.in(f.alice)
		next, _ := f.in(f.alice)
		his, _ := f.in(f.bob)
		for range login.MaxLive - 1 {
			f.in(f.alice)
		}
		require.Equal(t, 401, f.me(oldest).status)
		require.Equal(t, 200, f.me(next).status)
		require.Equal(t, 200, f.me(his).status)
		f.clock.advance(9 * 24 * time.Hour)
		require.NoError(t, f.accounts.Sessions.Purge(t.Context()))
		var left int
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw("SELECT (SELECT count(*) FROM user_sessions) + (SELECT count(*) FROM one_time_codes)").Scan(&left).Error)
		require.Zero(t, left)
	})
}

func TestTheCookieNeedsTLSButOnLoopback(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		for host, secure := range map[string]bool{
			"localhost:5800": false, "127.0.0.1:5800": false, "[::1]:5800": false, "app.localhost": false, "portico.example": true, "192.168.1.4:5800": true,
			"localhost.example": true, "notlocalhost": true,
		} {
			a := f.ask("POST", "/v1/auth/session", `{"code":"`+f.code(f.alice)+`"}`, "Host", host)
			require.Equal(t, 200, a.status, a.raw)
			require.Equal(t, secure, a.cookie.Secure, host)
		}
		f = f.with(signin.Settings{Endpoint: "https://portico.example", Console: "/console"})
		a := f.ask("POST", "/v1/auth/session", `{"apiKey":"`+second(f.key(f.alice))+`"}`, "Host", "127.0.0.1:5800")
		require.True(t, a.cookie.Secure, "behind a proxy that ends TLS")
	})
}

func second(_, b string) string { return b }

func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		hers, id := f.in(f.alice)
		bob := actor.Actor{UID: f.bob.UID}
		tries := map[string]func() error{
			"Live": func() error { _, err := f.accounts.Sessions.Live(t.Context(), bob.UID, id); return err },
			"End":  func() error { return f.accounts.Sessions.End(t.Context(), bob, id) },
			"List": func() error {
				list, err := f.accounts.Sessions.List(t.Context(), bob)
				require.Empty(t, list)
				require.NoError(t, err)
				return login.ErrMissing
			},
			"EndOthers": func() error {
				require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return f.accounts.Sessions.EndOthers(tx, bob.UID, "") }))
				return login.ErrMissing
			},
		}
		for m := range reflect.TypeFor[*login.Service]().Methods() {
			switch m.Name {
			case "Begin", "Purge", "Issue", "Valid", "Redeem": // of the user that the server names, of all users, or of whoever has the code
				continue
			}
			try, tried := tries[m.Name]
			require.True(t, tried, "%s is not tried as another user", m.Name)
			require.ErrorIs(t, try(), login.ErrMissing, m.Name)
		}
		require.Equal(t, 200, f.me(hers).status)
		his, _ := f.in(f.bob)
		require.Equal(t, 404, f.ask("DELETE", "/v1/auth/sessions/"+id, "", "Cookie", his).status)
		require.Equal(t, 404, f.ask("POST", "/v1/action/"+herRun+"/ticket", "{}", "Cookie", his).status)
		require.Equal(t, 200, f.me(hers).status)
	})
}

func TestATicketIsForOneVersionOfOneRunForAMinute(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		f.api.Raw(httpapi.Operation{ID: "watch", Method: "GET", Path: "/watch", Tag: "t", Summary: "x", Tickets: true},
			func(w http.ResponseWriter, _ *http.Request, who actor.Actor) error {
				return httpapi.Write(w, map[string]any{"uid": who.UID, "name": fmt.Sprint(who.RunID, " ", who.RunVersion), "role": string(who.Scope)})
			})
		cookie, _ := f.in(f.alice)
		a := f.ask("POST", "/v1/action/"+herRun+"/ticket", "{}", "Cookie", cookie)
		require.Equal(t, 200, a.status, a.raw)
		old := f.ask("POST", "/v1/action/"+herRun+"/ticket?version=0", "{}", "Cookie", cookie)
		require.Equal(t, 404, f.ask("POST", "/v1/action/"+herRun+"/ticket?version=2", "{}", "Cookie", cookie).status)
		for range 2 {
			w := f.ask("GET", "/watch?ticket="+a.data.Ticket, "")
			require.Equal(t, []string{f.alice.UID, herRun + " 1", "watch"}, []string{w.data.UID, w.data.Name, w.data.Role})
		}
		require.Equal(t, herRun+" 0", f.ask("GET", "/watch?ticket="+old.data.Ticket, "").data.Name)
		require.Equal(t, 401, f.ask("GET", "/v1/auth/me?ticket="+a.data.Ticket, "").status, "for nothing else")
		require.Equal(t, 401, f.ask("GET", "/v1/auth/me", "", "Authorization", "Bearer "+a.data.Ticket).status, "it is no session token")
		require.Equal(t, 401, f.ask("GET", "/watch?ticket="+strings.TrimPrefix(cookie, httpapi.AccessCookie+"="), "").status, "a session token is no ticket")
		f.clock.advance(time.Minute + time.Second)
		require.Equal(t, 401, f.ask("GET", "/watch?ticket="+a.data.Ticket, "").status)
		a = f.ask("POST", "/v1/action/"+herRun+"/ticket", "{}", "Cookie", cookie)
		require.Equal(t, 200, f.ask("DELETE", "/v1/auth/session", "", "Cookie", cookie).status)
		require.Equal(t, 401, f.ask("GET", "/watch?ticket="+a.data.Ticket, "").status, "she signed out")
	})
}

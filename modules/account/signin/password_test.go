package signin_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/signin"
)

var inviteForm = regexp.MustCompile(`/console/signup\?invite=(\w+)`)

func TestAPasswordSignsItsUserIn(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		byLink, _ := f.in(f.alice)
		other, _ := f.in(f.alice)
		change := func(cookie, body string) answer {
			return f.ask("POST", "/v1/auth/password", body, "Cookie", cookie)
		}
		require.Equal(t, 400, change(byLink, `{"password":"too short"}`).status)
		require.Equal(t, 200, change(byLink, `{"password":"correct horse"}`).status, "there is none yet")
		require.Equal(t, 200, f.me(byLink).status)
		require.Equal(t, 401, f.me(other).status, "other sessions end")
		for _, login := range []string{"alice", "alice@example.com", "ALICE@example.com"} {
			a := f.ask("POST", "/v1/auth/session", `{"email":"`+login+`","password":"correct horse"}`)
			require.Equal(t, 200, a.status, a.raw)
			require.Equal(t, f.alice.UID, a.data.UID)
		}
		require.Equal(t, 401, f.ask("POST", "/v1/auth/session", `{"email":"bob","password":"correct horse"}`).status)
		require.Equal(t, 403, change(byLink, `{"password":"battery staple"}`).status)
		require.Equal(t, 403, change(byLink, `{"old":"wrong","password":"battery staple"}`).status)
		require.Equal(t, 200, change(byLink, `{"old":"correct horse","password":"battery staple"}`).status)
		require.Equal(t, 401, f.ask("POST", "/v1/auth/session", `{"email":"alice","password":"correct horse"}`).status)
		require.NoError(t, f.accounts.Service.Disable(t.Context(), f.alice.UID, true))
		require.Equal(t, 401, f.ask("POST", "/v1/auth/session", `{"email":"alice","password":"battery staple"}`).status)
		var stored string
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw("SELECT password FROM users WHERE name = 'alice'").Scan(&stored).Error)
		require.Regexp(t, `^\$argon2id\$`, stored)
		require.NoError(t, f.accounts.Service.Disable(t.Context(), f.alice.UID, false))
		require.NoError(t, f.signin.Service.SetPassword(t.Context(), actor.Actor{UID: audit.Operator}, f.alice.UID, "of the operator"))
		require.Equal(t, 401, f.me(byLink).status)
		require.ErrorIs(t, f.signin.Service.SetPassword(t.Context(), actor.Actor{UID: audit.Operator}, "u-none", "of the operator"), account.ErrUserMissing)
	})
}

func TestGuessingTheOldPasswordIsLimited(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		require.NoError(t, f.signin.Service.SetPassword(t.Context(), actor.Actor{UID: audit.Operator}, f.alice.UID, "correct horse"))
		cookie, _ := f.in(f.alice)
		for i := range 6 {
			a := f.ask("POST", "/v1/auth/password", `{"old":"wrong","password":"battery staple"}`, "Cookie", cookie, "From", fmt.Sprintf("192.0.2.%d:1", i))
			require.Equal(t, map[bool]int{true: 403, false: 429}[i < 5], a.status, a.raw)
		}
	})
}

// A user who does not exist, or has no password, costs a hash as well.
func TestEveryAttemptCostsAHash(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		require.NoError(t, f.signin.Service.SetPassword(t.Context(), actor.Actor{UID: audit.Operator}, f.alice.UID, "correct horse"))
		require.NoError(t, f.accounts.Service.Disable(t.Context(), f.bob.UID, true))
		checked := f.signin.CountHashes()
		for i, login := range []string{"alice", "bob", "nobody"} {
			require.Equal(t, 401, f.ask("POST", "/v1/auth/session", `{"email":"`+login+`","password":"wrong"}`).status)
			require.EqualValues(t, i+1, checked.Load(), "%s was refused without a hash", login)
		}
	})
}

func TestSigningUpFollowsTheRule(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		sign := func(f *fixture, name, email, invite string) answer {
			return f.ask("POST", "/v1/auth/signup", fmt.Sprintf(`{"name":%q,"email":%q,"password":"correct horse","invite":%q}`, name, email, invite))
		}
		closed := setup(t, db)
		require.Equal(t, 403, sign(closed, "carol", "", "").status, "off unless somebody sets it")
		operator := actor.Actor{UID: audit.Operator}
		_, err := closed.signin.Service.Invite(t.Context(), operator)
		require.ErrorContains(t, err, "Nobody can sign up")

		f := closed.with(signin.Settings{Endpoint: "http://localhost:5800", Console: "/console", SignUp: signin.Open})
		a := sign(f, "carol", "carol@example.com", "")
		require.Equal(t, 200, a.status, a.raw)
		require.Equal(t, []string{"carol", "carol@example.com", "user", "session"}, []string{a.data.Name, a.data.Email, a.data.Role, a.data.Credential})
		require.Equal(t, 200, f.ask("POST", "/v1/auth/session", `{"email":"carol@example.com","password":"correct horse"}`).status)
		require.Equal(t, 409, sign(f, "carol", "", "").status)
		require.Equal(t, 409, sign(f, "carol2", "CAROL@example.com", "").status)
		require.Equal(t, 400, sign(f, "a b", "", "").status)
		require.Equal(t, 400, sign(f, "carol2", "no address", "").status)
		require.Equal(t, 400, f.ask("POST", "/v1/auth/signup", `{"name":"dora","password":"short"}`).status)
		require.Equal(t, 409, sign(f, "carol", "", "").status)
		require.Equal(t, 429, sign(f, "dora", "", "").status, "too many attempts failed")

		f = closed.with(signin.Settings{Endpoint: "http://localhost:5800", Console: "/console", SignUp: signin.Invite})
		require.NoError(t, f.accounts.Service.SetRole(t.Context(), operator, f.alice.UID, true))
		admin, _ := f.in(f.alice)
		his, _ := f.in(f.bob)
		require.Equal(t, 403, f.ask("POST", "/v1/admin/invites", `{}`, "Cookie", his).status)
		made := f.ask("POST", "/v1/admin/invites", `{}`, "Cookie", admin)
		require.Equal(t, 200, made.status, made.raw)
		code := inviteForm.FindStringSubmatch(made.raw)[1]
		require.Equal(t, 403, sign(f, "eva", "", "").status)
		require.Equal(t, 409, sign(f, "bob", "", code).status, "that uses no invitation up")
		require.Equal(t, 200, sign(f, "eva", "", code).status)
		require.Equal(t, 403, sign(f, "fred", "", code).status, "an invitation is good once")
		require.Equal(t, 403, sign(f, "fred", "", f.code(f.bob)).status, "a link to sign in is no invitation")
		late := inviteForm.FindStringSubmatch(f.ask("POST", "/v1/admin/invites", `{}`, "Cookie", admin).raw)[1]
		f.clock.advance(7*24*time.Hour + time.Second)
		require.Equal(t, 403, sign(f, "fred", "", late).status)
	})
}

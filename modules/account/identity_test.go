package account_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/hosttoken"
	"github.com/portico-run/portico/modules/account/hosttoken/hosttokentest"
)

// plans remembers which plans users were put on.
type plans struct {
	mu   sync.Mutex
	told []string
}

func (p *plans) Follow(_ database.Tx, _, plan string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, plan)
	return plan != "gone", nil
}

// hosted is a service that takes the tokens of one host.
type hosted struct {
	*account.Service
	host  hosttokentest.Host
	clock *clock
	plans *plans
	log   *bytes.Buffer
}

func host(t *testing.T, db *database.DB, change func(h *account.Hosts)) hosted {
	t.Helper()
	h := hosted{host: hosttokentest.New(t, "key"), clock: &clock{now: database.Now()}, plans: &plans{}, log: &bytes.Buffer{}}
	verifier, err := hosttoken.New(hosttoken.Settings{
		PublicKey: h.host.Public(t), KeyID: "key", Issuer: "librechat", Audience: "codeapi", Skew: 30 * time.Second, MaxLife: 5 * time.Minute,
		Logger: slog.New(slog.DiscardHandler), Now: h.clock.Now,
	})
	require.NoError(t, err)
	hosts := account.Hosts{Verifier: verifier, Subscriptions: h.plans}
	change(&hosts)
	h.Service = account.New(account.Deps{
		DB: db, TokenKeys: signing.Keys{secret}, TokenLife: time.Hour, Hosts: hosts, Logger: slog.New(slog.NewTextHandler(h.log, nil)), Now: h.clock.Now,
	}).Service
	return h
}

// as authenticates a person by a token of now.
func (h hosted) as(t *testing.T, subject string, changes ...map[string]any) (actor.Actor, error) {
	t.Helper()
	now := h.clock.Now().Unix()
	of := append([]map[string]any{{"iat": now, "nbf": now, "exp": now + 300}}, changes...)
	return h.Authenticate(t.Context(), httpapi.Credentials{Token: h.host.For(t, subject, of...)})
}

func TestPeopleOfHostsBecomeUsers(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		h := host(t, db, func(*account.Hosts) {})
		a, err := h.as(t, "66f0a1b2c3d4e5f60718293a", map[string]any{"code_worker_id": "w-1"})
		require.NoError(t, err)
		require.Equal(t, actor.Actor{UID: a.UID, Scope: actor.CodeAPI, Worker: "w-1"}, a)
		again, err := h.as(t, "66f0a1b2c3d4e5f60718293a")
		require.NoError(t, err)
		require.Equal(t, a.UID, again.UID)
		// The same subject of another tenant is another person.
		other, err := h.as(t, "66f0a1b2c3d4e5f60718293a", map[string]any{"tenant_id": "acme"})
		require.NoError(t, err)
		require.NotEqual(t, a.UID, other.UID)
		strange, err := h.as(t, `Ünï/../x" OR 1=1`)
		require.NoError(t, err)

		users, err := h.Users(t.Context())
		require.NoError(t, err)
		require.Len(t, users, 3)
		require.Regexp(t, `^66f0a1b2c3d4e5f60718293a-[0-9a-f]{16}$`, users[0].Name)
		require.Equal(t, &account.Identity{Issuer: "librechat", Tenant: "legacy", Subject: "66f0a1b2c3d4e5f60718293a"}, users[0].From)
		require.Equal(t, "acme", users[1].From.Tenant)
		require.Regexp(t, `^_n__.._x__OR_1_1-[0-9a-f]{16}$`, users[2].Name)
		require.Equal(t, strange.UID, users[2].UID)
		events, err := h.Audit(t.Context(), other, httpapi.PageQuery{Limit: 10})
		require.NoError(t, err)
		require.Len(t, events.Items, 1)
		require.Equal(t, "user.create", events.Items[0].Action)
		require.Equal(t, map[string]string{"issuer": "librechat", "tenant": "acme", "subject": "66f0a1b2c3d4e5f60718293a"}, events.Items[0].Detail)
		require.Empty(t, h.plans.told, "no plan is configured")
	})
}

func TestOneOfManyFirstRequestsMakesTheUser(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		h := host(t, db, func(hosts *account.Hosts) { hosts.MaxUsers = 1 })
		now := h.clock.Now().Unix()
		token := h.host.For(t, "first", map[string]any{"iat": now, "nbf": now, "exp": now + 300})
		uids := make([]string, 8)
		var wg sync.WaitGroup
		for i := range uids {
			wg.Go(func() {
				a, err := h.Authenticate(t.Context(), httpapi.Credentials{Token: token})
				if err != nil {
					t.Error(err)
				}
				uids[i] = a.UID
			})
		}
		wg.Wait()
		for _, uid := range uids {
			require.Equal(t, uids[0], uid)
		}
		_, err := h.as(t, "second")
		require.ErrorIs(t, err, account.ErrManyUsers)
		_, err = h.as(t, "first")
		require.NoError(t, err)
	})
}

// Any number of people who come at once make no more users than may be.
func TestUsersOfHostsAreBounded(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		h := host(t, db, func(hosts *account.Hosts) { hosts.MaxUsers = 3 })
		now := h.clock.Now().Unix()
		var wg sync.WaitGroup
		for i := range 10 {
			token := h.host.For(t, fmt.Sprint("person-", i), map[string]any{"iat": now, "nbf": now, "exp": now + 300})
			wg.Go(func() {
				if _, err := h.Authenticate(t.Context(), httpapi.Credentials{Token: token}); err != nil && !errors.Is(err, account.ErrManyUsers) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		users, err := h.Users(t.Context())
		require.NoError(t, err)
		require.Len(t, users, 3)
	})
}

func TestPlansOfHosts(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		h := host(t, db, func(hosts *account.Hosts) {
			hosts.Plans = map[string]string{"pro": "plus_monthly", "team": "gone", "basic": ""}
		})
		on := func(plan string, changes ...map[string]any) []string {
			before := len(h.plans.told)
			_, err := h.as(t, "anna", append([]map[string]any{{"plan_id": plan}}, changes...)...)
			require.NoError(t, err)
			return h.plans.told[before:]
		}
		require.Equal(t, []string{"plus_monthly"}, on("pro"))
		require.Empty(t, on("pro"), "nothing changed")
		h.clock.advance(time.Second)
		require.Equal(t, []string{""}, on("basic"))
		// A token that was made before the change is still sent for a while.
		before := h.clock.Now().Add(-2 * time.Second).Unix()
		require.Empty(t, on("pro", map[string]any{"iat": before, "exp": before + 300}))
		h.clock.advance(time.Minute)
		require.Empty(t, on("pro", map[string]any{"iat": before, "exp": before + 300}), "nor when it is noted that she was seen")
		require.Equal(t, []string{"plus_monthly"}, on("pro"))
		h.clock.advance(time.Minute)
		require.Equal(t, []string{"plus_monthly"}, on("pro"), "what operators changed meanwhile is seen once a minute")
		h.clock.advance(time.Second)
		require.Equal(t, []string{""}, on("platinum"))
		require.Empty(t, on("platinum"))
		require.Equal(t, []string{"gone"}, on("team"))
		h.clock.advance(time.Minute)
		require.Equal(t, []string{"gone"}, on("team"))
		require.Equal(t, 1, strings.Count(h.log.String(), "planId=platinum"), h.log.String())
		require.Equal(t, 1, strings.Count(h.log.String(), "plan=gone"), h.log.String())
	})
}

func TestUsersThatAreDisabledAreRefused(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		h := host(t, db, func(*account.Hosts) {})
		a, err := h.as(t, "anna")
		require.NoError(t, err)
		_, key, err := h.CreateKey(t.Context(), a, "own", 0)
		require.NoError(t, err)
		temporary, err := h.TemporaryKey(t.Context(), a)
		require.NoError(t, err)
		session, err := h.IssueToken(t.Context(), a)
		require.NoError(t, err)
		all := map[string]func() error{
			"token of a host": func() error { _, err := h.as(t, "anna"); return err },
			"key": func() error {
				_, err := h.Authenticate(t.Context(), httpapi.Credentials{APIKey: key.Reveal()})
				return err
			},
			"key of a sandbox": func() error {
				_, err := h.Authenticate(t.Context(), httpapi.Credentials{APIKey: temporary.Reveal()})
				return err
			},
			"session": func() error { _, err := h.Authenticate(t.Context(), httpapi.Credentials{Token: session}); return err },
		}
		want := map[string]error{"token of a host": account.ErrBadHostToken, "key": account.ErrBadKey, "key of a sandbox": account.ErrBadKey, "session": account.ErrBadToken}
		for name, try := range all {
			require.NoError(t, try(), name)
		}
		require.NoError(t, h.Disable(t.Context(), a.UID, true))
		for name, try := range all {
			require.ErrorIs(t, try(), want[name], name)
		}
		users, err := h.Users(t.Context())
		require.NoError(t, err)
		require.Len(t, users, 1, "the person is not made again")
		require.True(t, users[0].Disabled)
		require.NoError(t, h.Disable(t.Context(), a.UID, false))
		for name, try := range all {
			require.NoError(t, try(), name)
		}
		require.ErrorIs(t, h.Disable(t.Context(), "u-nobody", true), account.ErrUserMissing)
		events, err := h.Audit(t.Context(), a, httpapi.PageQuery{Limit: 2})
		require.NoError(t, err)
		require.Equal(t, []string{"user.enable", "user.disable"}, []string{events.Items[0].Action, events.Items[1].Action})
	})
}

// What a token is refused for is in the log and nowhere else, and the token is
// in neither.
func TestRefusalsOfTokensSayNothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		h := host(t, db, func(*account.Hosts) {})
		none := setup(t, db)
		for reason, claims := range map[string]map[string]any{
			"token is expired": {"exp": 5}, "token has invalid audience": {"aud": "other"}, "token has invalid issuer": {"iss": "other"},
		} {
			h.log.Reset()
			_, err := h.as(t, "anna", claims)
			require.Equal(t, account.ErrBadHostToken, err)
			require.Contains(t, h.log.String(), reason)
			require.NotContains(t, h.log.String(), "eyJ")
		}
		_, err := none.Authenticate(t.Context(), httpapi.Credentials{Token: h.host.For(t, "anna")})
		require.ErrorIs(t, err, account.ErrBadToken)
		refused, ok := errors.AsType[*errs.Error](err)
		require.True(t, ok)
		require.Contains(t, refused.Detail, "CODEAPI_JWT_PUBLIC_KEY")
		// The secret of sessions makes no person, and a host no session.
		forged := hosttokentest.NewHS256("key", string(secret))
		_, err = h.Authenticate(t.Context(), httpapi.Credentials{Token: forged.For(t, "anna")})
		require.Equal(t, account.ErrBadHostToken, err)
		_, err = h.Authenticate(t.Context(), httpapi.Credentials{Token: h.host.For(t, "anna", map[string]any{"uid": none.alice.UID, "iss": nil})})
		require.Equal(t, account.ErrBadHostToken, err)
		users, err := h.Users(t.Context())
		require.NoError(t, err)
		require.Len(t, users, 2, "nobody was made")
	})
}

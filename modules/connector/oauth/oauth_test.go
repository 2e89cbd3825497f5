package oauth_test

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/accesstest"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/connector/mcp/authorize"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/oauth"
	"github.com/portico-run/portico/modules/connector/oauth/oauthtest"
)

func TestRows(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, row := range oauth.Rows() {
			databasetest.CheckRow(t, db, row)
		}
	})
}

// Every exported method of the service is tried by a user on what another user
// has at the same server.
func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	system := map[string]string{
		"ConnectURL": "an address, the same for all users",
		"Document":   "describes this server",
		"Kind":       "what the service is for",
		"Connected":  "of toolsets; TestToolsetsAreConnected tries it",
		"Held":       "counts for operators", "Forget": "operators delete toolsets",
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		p.connect(t, s, ben)
		_, waiting, _ := p.begin(t, s, ben)
		o, err := p.Callback(t.Context(), waiting, "")
		require.NoError(t, err)
		tries := map[string]func(t *testing.T){
			"Token": func(t *testing.T) {
				_, _, err := p.whoami(t.Context(), anna)
				needed(t, err)
			},
			"Refused": func(t *testing.T) { // his token is his, and stays
				of, err := authorize.Targets{Servers: p.servers}.Find(t.Context(), anna, "docs")
				require.NoError(t, err)
				his, err := p.Token(t.Context(), ben, of)
				require.NoError(t, err)
				needed(t, p.Refused(t.Context(), anna, of, oauth.Refusal{Token: his, Status: http.StatusUnauthorized}))
				again, err := p.Token(t.Context(), ben, of)
				require.NoError(t, err)
				require.Equal(t, his, again)
			},
			"Disconnect": func(t *testing.T) {
				require.Equal(t, errs.NotFound, errs.CodeOf(p.Disconnect(t.Context(), anna, "docs")))
			},
			"Confirm": func(t *testing.T) {
				require.Equal(t, errs.NotFound, errs.CodeOf(p.Confirm(t.Context(), anna, "docs", o.Code)))
			},
			"Connect": func(t *testing.T) { // leaves the one that waits
				_, err := p.Connect(t.Context(), anna, "docs")
				require.NoError(t, err)
				require.NoError(t, p.Confirm(t.Context(), ben, "docs", o.Code))
			},
			"Callback": func(t *testing.T) {
				_, his, _ := p.begin(t, s, ben)
				hers, err := p.Connect(t.Context(), anna, "docs")
				require.NoError(t, err)
				got, err := p.Callback(t.Context(), his, hers.Browser)
				require.NoError(t, err)
				require.NotEmpty(t, got.Code, "her browser completes nothing of his")
				o = got
				_, _, err = p.whoami(t.Context(), anna)
				needed(t, err)
			},
		}
		accesstest.Each(t, reflect.TypeFor[*oauth.Service](), tries, system)
		who, _, err := p.whoami(t.Context(), ben)
		require.NoError(t, err)
		require.Equal(t, "u-ben", who)
	})
}

// A user agrees once; then every call has a token that is theirs, for this server
// alone, and the database has no word of it.
func TestAUserAuthorizesAndCalls(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		_, _, err := p.whoami(t.Context(), anna)
		needed(t, err)
		asked := p.connect(t, s, anna)
		require.Equal(t, s.URL, asked.Get("resource"))
		require.Equal(t, "S256", asked.Get("code_challenge_method"))
		require.Equal(t, "offline_access tools", asked.Get("scope"))
		who, tools, err := p.whoami(t.Context(), anna)
		require.NoError(t, err)
		require.Equal(t, "u-anna", who)
		require.ElementsMatch(t, []string{"whoami", "of_u_anna"}, tools)
		require.Len(t, s.Registrations(), 1)
		require.Equal(t, "web", s.Registrations()[0]["application_type"])
		require.Equal(t, []any{endpoint + "/v1/mcp/oauth/callback"}, s.Registrations()[0]["redirect_uris"])
		p.connect(t, s, ben)
		require.Len(t, s.Registrations(), 1, "a client is one of all users")

		var stored []string
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(`SELECT tokens FROM mcp_credentials UNION ALL SELECT client FROM mcp_clients`).Scan(&stored).Error)
		require.Len(t, stored, 3)
		for _, text := range stored {
			require.NotContains(t, text, "access")
			require.NotContains(t, text, "client")
		}
	})
}

// 100 programs of two users at once: each has the tools and answers of its user.
func TestTokensOfUsersAreNeverMixed(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			hub := &wake.Hub{}
			p := start(t, databasetest.Open(t, d, hub.Publish), hub)
			s := oauthtest.Start(t, oauthtest.Settings{})
			p.add(t, s)
			p.connect(t, s, anna)
			p.connect(t, s, ben)
			var wg sync.WaitGroup
			for i := range 100 {
				who := []actor.Actor{anna, ben}[i%2]
				wg.Go(func() {
					got, tools, err := p.whoami(t.Context(), who)
					if err != nil || got != who.UID || len(tools) != 2 || tools[0] != "of_"+strings.ReplaceAll(who.UID, "-", "_") {
						t.Errorf("%s is %s, with %v: %v", who.UID, got, tools, err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// A link that somebody else opens gives nothing away: the flow is completed by the
// code that its page shows, sent by the user who began it.
func TestAnotherBrowserConfirmsWithACode(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		for _, browser := range []string{"", "another"} {
			_, answer, _ := p.begin(t, s, anna)
			o, err := p.Callback(t.Context(), answer, browser)
			require.NoError(t, err)
			require.Len(t, o.Code, 8)
			_, _, err = p.whoami(t.Context(), anna)
			needed(t, err)
			require.Equal(t, errs.Invalid, errs.CodeOf(p.Confirm(t.Context(), anna, "docs", "BBBB-BBBB")))
			require.NoError(t, p.Confirm(t.Context(), anna, "docs", strings.ToLower(o.Code[:4])+" - "+o.Code[4:]))
			who, _, err := p.whoami(t.Context(), anna)
			require.NoError(t, err)
			require.Equal(t, "u-anna", who)
			require.Equal(t, errs.NotFound, errs.CodeOf(p.Confirm(t.Context(), anna, "docs", o.Code)), "once")
			require.NoError(t, p.Disconnect(t.Context(), anna, "docs"))
		}
		_, answer, _ := p.begin(t, s, anna)
		o, err := p.Callback(t.Context(), answer, "")
		require.NoError(t, err)
		for range 4 {
			require.Equal(t, errs.Invalid, errs.CodeOf(p.Confirm(t.Context(), anna, "docs", "BBBBBBBB")))
		}
		require.Equal(t, errs.Forbidden, errs.CodeOf(p.Confirm(t.Context(), anna, "docs", "BBBBBBBB")))
		require.Equal(t, errs.NotFound, errs.CodeOf(p.Confirm(t.Context(), anna, "docs", o.Code)), "nobody guesses for ever")
	})
}

func TestAStateIsGoodForOneAnswerInTenMinutes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		b, answer, _ := p.begin(t, s, anna)
		_, err := p.Callback(t.Context(), oauth.Answer{State: "guessed", Code: answer.Code, Issuer: s.Issuer}, b.Browser)
		require.Equal(t, errs.NotFound, errs.CodeOf(err))
		results := make(chan error, 5)
		for range cap(results) {
			go func() {
				_, err := p.Callback(t.Context(), answer, b.Browser)
				results <- err
			}()
		}
		succeeded := 0
		for range cap(results) {
			if err := <-results; err == nil {
				succeeded++
			} else {
				require.Equal(t, errs.NotFound, errs.CodeOf(err), "%v", err)
			}
		}
		require.Equal(t, 1, succeeded)
		require.Equal(t, 1, s.Count("code"))

		b, answer, _ = p.begin(t, s, anna)
		p.later(10*time.Minute + time.Second)
		_, err = p.Callback(t.Context(), answer, b.Browser)
		require.Equal(t, errs.NotFound, errs.CodeOf(err))
		b, answer, _ = p.begin(t, s, anna)
		_, err = p.Connect(t.Context(), anna, "docs")
		require.NoError(t, err)
		_, err = p.Callback(t.Context(), answer, b.Browser)
		require.Equal(t, errs.NotFound, errs.CodeOf(err), "who begins again ends the one before")
	})
}

// The answer of another authorization server than the one that was asked is
// refused before its code is used.
func TestAnswersOfOtherIssuersAreRefused(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for name, settings := range map[string]oauthtest.Settings{"another issuer": {Issuer: "https://evil.example.com"}, "no issuer": {NoIssuer: true}} {
			s := oauthtest.Start(t, settings)
			p := start(t, db, nil)
			p.add(t, s)
			b, answer, _ := p.begin(t, s, anna)
			_, err := p.Callback(t.Context(), answer, b.Browser)
			require.Equal(t, errs.Forbidden, errs.CodeOf(err), name)
			answer.Issuer = s.Issuer + "/"
			_, err = p.Callback(t.Context(), answer, b.Browser)
			require.Equal(t, errs.NotFound, errs.CodeOf(err), "the state is used up")
			b, answer, _ = p.begin(t, s, anna)
			answer.Issuer = s.Issuer + "/"
			_, err = p.Callback(t.Context(), answer, b.Browser)
			require.Equal(t, errs.Forbidden, errs.CodeOf(err), "byte for byte")
			require.Zero(t, s.Count("code"))
			require.NoError(t, p.servers.Operators().Remove(t.Context(), "", "docs"))
		}
	})
}

func TestADeclinedAuthorizationIsSaid(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		b, answer, _ := p.begin(t, s, anna)
		_, err := p.Callback(t.Context(), oauth.Answer{State: answer.State, Issuer: s.Issuer, Error: "access_denied", Description: "no\n<b>" + strings.Repeat("x", 500)}, b.Browser)
		require.Equal(t, errs.Forbidden, errs.CodeOf(err))
		require.ErrorContains(t, err, "access_denied no<b>xxx")
		require.Less(t, len(err.Error()), 300)
		_, _, err = p.whoami(t.Context(), anna)
		needed(t, err)
	})
}

// Many callers in two processes need a new token at once: one of them asks for
// it, although the authorization server takes a refresh token once only and ends
// everything where one comes twice.
func TestTokensAreRefreshedOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		processes := []*process{start(t, db, nil), start(t, db, nil)}
		processes[0].add(t, s)
		processes[0].connect(t, s, anna)
		for round := 1; round <= 3; round++ {
			for _, p := range processes {
				p.later(time.Hour)
			}
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					who, _, err := processes[i%2].whoami(t.Context(), anna)
					if err != nil || who != "u-anna" {
						t.Errorf("%s: %v", who, err)
					}
				})
			}
			wg.Wait()
			require.Equal(t, round, s.Count("refresh"))
		}
		for _, form := range s.Forms() {
			require.Equal(t, s.URL, form.Get("resource"))
		}
		of, err := processes[0].servers.Find(t.Context(), anna, "docs")
		require.NoError(t, err)
		var stored string
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(`SELECT version FROM mcp_credentials`).Scan(&stored).Error)
		require.True(t, strings.HasSuffix(of.Version, stored), "a new token is the same connection")
	})
}

// A process that is refused a token which another one has refreshed takes the new one,
// also before it is told of it.
func TestATokenThatAnotherProcessRefreshed(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p, other := start(t, db, &wake.Hub{}), start(t, db, nil)
		p.add(t, s)
		p.connect(t, s, anna)
		of, err := authorize.Targets{Servers: p.servers}.Find(t.Context(), anna, "docs")
		require.NoError(t, err)
		old, err := p.Token(t.Context(), anna, of)
		require.NoError(t, err)
		refused := oauth.Refusal{Token: old, Status: http.StatusUnauthorized}
		require.NoError(t, other.Refused(t.Context(), anna, of, refused))
		require.NoError(t, p.Refused(t.Context(), anna, of, refused))
		again, err := p.Token(t.Context(), anna, of)
		require.NoError(t, err)
		require.NotEqual(t, old, again)
		require.Equal(t, 1, s.Count("refresh"))
	})
}

// Tokens that are sealed with another key meanwhile are refreshed all the same.
func TestTokensThatWereSealedAgainAreRefreshed(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		p.connect(t, s, anna)
		p.later(2 * time.Hour)
		ended, err := oauth.RenewAfter(t.Context(), p.Service, anna, "docs", func() {
			old, err := secretbox.New(strings.Repeat("0a", 32))
			require.NoError(t, err)
			var sealed string
			require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw("SELECT tokens FROM mcp_credentials").Scan(&sealed).Error)
			secret, err := old.Open(sealed)
			require.NoError(t, err)
			connectortest.Exec(t, db, "UPDATE mcp_credentials SET tokens = ?", old.Seal(secret))
		})
		require.NoError(t, err)
		require.False(t, ended)
		require.Equal(t, 1, s.Count("refresh"))
	})
}

// A process that ends in the middle of a refresh holds the others up for half a
// minute, not for ever.
func TestARefreshThatNobodyEndsIsTakenOver(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		p.connect(t, s, anna)
		p.later(time.Hour)
		until := p.now().Add(30 * time.Second)
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Unscoped(tx.Handle).Exec(`UPDATE mcp_credentials SET refreshing_until = ?`, until).Error
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		of, err := p.servers.Find(t.Context(), anna, "docs")
		require.NoError(t, err)
		handler, err := authorize.Authorizer{Grants: p}.Authorizer(t.Context(), anna, of)
		require.NoError(t, err)
		_, err = handler.TokenSource(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, s.Count("refresh"))
		p.later(31 * time.Second)
		who, _, err := p.whoami(t.Context(), anna)
		require.NoError(t, err)
		require.Equal(t, "u-anna", who)
	})
}

func TestAnEndedAuthorizationNeedsAPerson(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		p.connect(t, s, anna)
		before, err := p.servers.Find(t.Context(), anna, "docs")
		require.NoError(t, err)
		s.RevokeAll(t)
		_, _, err = p.whoami(t.Context(), anna)
		needed(t, err)
		require.Equal(t, 1, s.Count("refresh"))
		_, _, err = p.whoami(t.Context(), anna)
		needed(t, err)
		require.Equal(t, 1, s.Count("refresh"), "what is lost is not asked for again")
		after, err := p.servers.Find(t.Context(), anna, "docs")
		require.NoError(t, err)
		require.NotEqual(t, before.Version, after.Version)
		p.connect(t, s, anna)
		who, _, err := p.whoami(t.Context(), anna)
		require.NoError(t, err)
		require.Equal(t, "u-anna", who)
	})
}

// While the authorization server is out of reach, nothing is lost.
func TestATokenOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		p.connect(t, s, anna)
		s.Break(true)
		p.later(time.Hour - 20*time.Second)
		who, _, err := p.whoami(t.Context(), anna)
		require.NoError(t, err, "the token is still good")
		require.Equal(t, "u-anna", who)
		require.NotZero(t, s.Count("refresh"))
		p.later(time.Hour)
		_, _, err = p.whoami(t.Context(), anna)
		require.Error(t, err)
		require.NotErrorAs(t, err, new(oauth.Needed))
		s.Break(false)
		who, _, err = p.whoami(t.Context(), anna)
		require.NoError(t, err)
		require.Equal(t, "u-anna", who)
	})
}

// A call that lacks a scope has the user asked for it, together with those that
// were granted.
func TestStepUpAsksForAllScopes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		p.connect(t, s, anna)
		_, err := p.session(t.Context(), anna, http.Header{"X-Needs": {"write"}})
		needed(t, err)
		who, _, err := p.whoami(t.Context(), anna)
		require.NoError(t, err, "what was granted goes on")
		require.Equal(t, "u-anna", who)
		require.Equal(t, "offline_access tools write", p.connect(t, s, anna).Get("scope"))
		one, err := p.session(t.Context(), anna, http.Header{"X-Needs": {"write"}})
		require.NoError(t, err)
		require.NoError(t, one.Close())
	})
}

// The client is the one that was registered by hand, else a document, else one
// that is registered now.
func TestClientsInTheirOrder(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		var p *process
		documents := func(address string) []byte {
			if address != endpoint+"/v1/mcp/oauth/client.json" {
				return nil
			}
			text, err := json.Marshal(p.Document())
			if err != nil {
				return nil
			}
			return text
		}
		s := oauthtest.Start(t, oauthtest.Settings{Documents: documents})
		s.Know(t, "by-hand", "s3cret:/+", endpoint+"/v1/mcp/oauth/callback")
		p = start(t, db, nil)
		p.add(t, s, func(spec *server.Spec) { spec.Client = server.Client{ID: "by-hand", Secret: "s3cret:/+"} })
		require.Equal(t, "by-hand", p.connect(t, s, anna).Get("client_id"))
		require.NoError(t, p.servers.Operators().Remove(t.Context(), "", "docs"))
		p.add(t, s)
		require.Equal(t, endpoint+"/v1/mcp/oauth/client.json", p.connect(t, s, anna).Get("client_id"))
		who, _, err := p.whoami(t.Context(), anna)
		require.NoError(t, err)
		require.Equal(t, "u-anna", who)
		require.Zero(t, s.Count("register"))

		closed := oauthtest.Start(t, oauthtest.Settings{NoRegistration: true})
		require.NoError(t, p.servers.Operators().Remove(t.Context(), "", "docs"))
		p.add(t, closed)
		_, err = p.Connect(t.Context(), anna, "docs")
		require.Equal(t, errs.Conflict, errs.CodeOf(err))
		require.ErrorContains(t, err, "registered by hand")
	})
}

// A client that the authorization server has forgotten is registered anew.
func TestAForgottenClientIsRegisteredAgain(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		p.connect(t, s, anna)
		s.Forget()
		p.later(time.Hour)
		_, _, err := p.whoami(t.Context(), anna)
		needed(t, err)
		p.connect(t, s, anna)
		require.Len(t, s.Registrations(), 2)
	})
}

// A client is kept as long as somebody has tokens by it: a server can name another
// authorization server each time.
func TestClientsThatNobodyUsesAreNotKept(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		kept := func() (n int64) {
			require.NoError(t, database.Unscoped(db.Read(t.Context())).Table("mcp_clients").Count(&n).Error)
			return n
		}
		_, err := p.Connect(t.Context(), anna, "docs")
		require.NoError(t, err)
		require.Zero(t, kept(), "she may never come back")
		p.connect(t, s, anna)
		_, err = p.Connect(t.Context(), ben, "docs")
		require.NoError(t, err)
		require.EqualValues(t, 1, kept())
		require.NoError(t, p.Disconnect(t.Context(), anna, "docs"))
		_, err = p.Connect(t.Context(), ben, "docs")
		require.NoError(t, err)
		require.Zero(t, kept())
	})
}

func TestLongNamesOfClientsAreRefused(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := start(t, db, nil)
		p.add(t, oauthtest.Start(t, oauthtest.Settings{LongID: true}))
		_, err := p.Connect(t.Context(), anna, "docs")
		require.Equal(t, errs.Unavailable, errs.CodeOf(err))
	})
}

func TestAuthorizationServersAreFound(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for name, settings := range map[string]oauthtest.Settings{
			"at the root":                {},
			"OpenID at the root":         {Well: "/.well-known/openid-configuration"},
			"with a path":                {Path: "/tenant/one"},
			"OpenID before the path":     {Path: "/tenant/one", Well: "/.well-known/openid-configuration/tenant/one"},
			"OpenID after the path":      {Path: "/tenant/one", Well: "/tenant/one/.well-known/openid-configuration"},
			"the server is its own":      {NoMetadata: true},
			"clients with secrets known": {Methods: []string{"none", "client_secret_basic"}},
		} {
			s := oauthtest.Start(t, settings)
			p := start(t, db, nil)
			p.add(t, s)
			p.connect(t, s, anna)
			who, _, err := p.whoami(t.Context(), anna)
			require.NoError(t, err, name)
			require.Equal(t, "u-anna", who)
			require.NoError(t, p.servers.Operators().Remove(t.Context(), "", "docs"))
		}
	})
}

// What a server or its authorization server points to is reached within the rules
// of egress only.
func TestMetadataPointsNowhereElse(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s, func(spec *server.Spec) { spec.Egress = nil })
		_, err := p.Connect(t.Context(), anna, "docs")
		require.Equal(t, errs.Unavailable, errs.CodeOf(err))
		require.Equal(t, egress.Refused, egress.KindOf(err), "%v", err)
		require.Zero(t, s.Count("metadata")+s.Count("401"))
	})
}

// Tokens were issued for an address; another one does not get them.
func TestAnotherAddressDoesNotGetTheTokens(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		p.connect(t, s, anna)
		of, err := p.servers.Find(t.Context(), anna, "docs")
		require.NoError(t, err)
		for address, allowed := range map[string]bool{of.URL: true, of.URL + "/below": true, of.URL + "other": false, strings.Replace(of.URL, "127.0.0.1", "127.0.0.2", 1): false} {
			of.URL = address
			handler, err := authorize.Authorizer{Grants: p}.Authorizer(t.Context(), anna, of)
			require.NoError(t, err)
			_, err = handler.TokenSource(t.Context())
			require.Equal(t, allowed, err == nil, address)
		}
	})
}

func TestDisconnectEndsTheTokensEverywhere(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := oauthtest.Start(t, oauthtest.Settings{})
		p := start(t, db, nil)
		p.add(t, s)
		p.connect(t, s, anna)
		p.connect(t, s, ben)
		require.NoError(t, p.Disconnect(t.Context(), anna, "docs"))
		require.Equal(t, 1, s.Count("revoke"))
		_, _, err := p.whoami(t.Context(), anna)
		needed(t, err)
		who, _, err := p.whoami(t.Context(), ben)
		require.NoError(t, err)
		require.Equal(t, "u-ben", who)
		view, err := p.servers.Show(t.Context(), anna, "docs")
		require.NoError(t, err)
		require.False(t, view.Authorized)
	})
}

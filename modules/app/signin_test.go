package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// signIn begins a session with a key and returns its cookie, as a header, and its
// id.
func (s *instance) signIn(key string) (cookie, id string) {
	s.t.Helper()
	a := s.send("", "POST", "/v1/auth/session", map[string]string{"apiKey": key})
	require.Equal(s.t, 200, a.status, a.raw)
	var me struct{ SessionID string }
	require.NoError(s.t, json.Unmarshal(a.body.Data, &me))
	cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	return cookie, me.SessionID
}

// scoped makes a key with scopes.
func (s *instance) scoped(scopes ...string) string {
	s.t.Helper()
	uid, err := s.app.Accounts.Service.KeyOwner(s.t.Context(), s.key)
	require.NoError(s.t, err)
	_, key, err := s.app.Accounts.Service.CreateKey(s.t.Context(), actor.Actor{UID: uid}, "scoped", 0, scopes...)
	require.NoError(s.t, err)
	return key.Reveal()
}

// A key with scopes opens what they say at every operation there is, and nothing
// else; so does a session that was begun with it. Its user is an administrator.
func TestScopesAtEveryOperation(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	runs := []string{
		"create-response", "delete-response", "create-chat-completion", "create-message", "count-message-tokens", "list-anthropic-models", "get-anthropic-model",
		"upload-anthropic-file", "list-anthropic-files", "get-anthropic-file", "download-anthropic-file", "delete-anthropic-file",
		"mcp", "mcp-end", "mcp-oauth", "mcp-oauth-end", "execute-code", "list-models", "get-model", "invoke-skill", "stream-invoke-skill", "abort-action", "register-action", "finish-action",
	}
	tools := []string{"execute-tool", "call-function", "ask-model", "get-tool-call-output"}
	operated := operations(document(t, s))
	for _, scopes := range [][]string{{"read"}, {"run"}, {"tools"}, {"read", "tools"}} {
		key := s.scoped(scopes...)
		cookie, _ := s.signIn(key)
		for _, op := range operated {
			if op.Security == nil {
				continue // for everybody
			}
			reads := op.method == "GET" || slices.Contains([]string{"create-action-ticket", "count-message-tokens"}, op.OperationID)
			programs := slices.Contains(runs, op.OperationID) || op.Tags[0] == "code interpreter" && op.method != "GET"
			calls := slices.Contains(tools, op.OperationID)
			may := reads && slices.Contains(scopes, "read") || (programs || calls) && slices.Contains(scopes, "run") || calls && slices.Contains(scopes, "tools")
			if strings.HasPrefix(op.path, "/v1/admin/") {
				may = false
			}
			for how, a := range map[string]answer{
				"key":     s.send(key, op.method, op.path, `{}`),
				"session": s.send("", op.method, op.path, `{}`, "Cookie", cookie),
			} {
				refused := a.status == 403 && strings.Contains(a.raw, `":"This key `)
				require.Equal(t, may, !refused, "%s with the scopes %v, by %s: %d %.200s", op.OperationID, scopes, how, a.status, a.raw)
			}
		}
	}
}

// follow reads a stream until it ends or the time is over.
func (s *instance) follow(path string, header ...string) (begun chan struct{}, ended chan error) {
	s.t.Helper()
	begun, ended = make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	require.NoError(s.t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	go func() {
		defer cancel()
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			ended <- err
			return
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		if lines.Scan() {
			close(begun)
		}
		for lines.Scan() {
		}
		ended <- ctx.Err()
	}()
	return begun, ended
}

// Whatever ends a credential ends the streams that it opened, and no others.
func TestStreamsEndWithTheirCredential(t *testing.T) {
	testenv.Slow(t, "streams that last")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		uid, err := s.app.Accounts.Service.KeyOwner(t.Context(), s.key)
		require.NoError(t, err)
		anna := actor.Actor{UID: uid}
		require.Equal(t, 200, s.send(s.key, "POST", "/v1/action/register", `{"resultId":"ar-lasting","toolCallId":"outside-1"}`).status)
		const path = "/v1/action/ar-lasting/events"
		k, key, err := s.app.Accounts.Service.CreateKey(t.Context(), anna, "doomed", 0)
		require.NoError(t, err)
		cookie, _ := s.signIn(s.key)
		other, _ := s.signIn(s.key)
		withTicket := func(cookie string) string {
			a := s.send("", "POST", "/v1/action/ar-lasting/ticket", `{}`, "Cookie", cookie)
			var made struct{ Ticket string }
			require.NoError(t, json.Unmarshal(a.body.Data, &made), a.raw)
			return path + "?ticket=" + made.Ticket
		}
		wrong := s.send("", "GET", strings.Replace(withTicket(cookie), "ar-lasting", "ar-other", 1), nil)
		require.Equal(t, 404, wrong.status)
		require.Equal(t, 404, s.send("", "GET", withTicket(cookie)+"&version=1", nil).status)
		keyBegun, keyEnded := s.follow(path, "X-API-Key", key.Reveal())
		sessionBegun, sessionEnded := s.follow(path, "Cookie", cookie)
		ticketBegun, ticketEnded := s.follow(withTicket(cookie))
		otherBegun, otherEnded := s.follow(path, "Cookie", other)
		for _, begun := range []chan struct{}{keyBegun, sessionBegun, ticketBegun, otherBegun} {
			<-begun
		}
		within := func(ended chan error, why string) {
			t.Helper()
			select {
			case err := <-ended:
				require.NoError(t, err)
			case <-time.After(5 * time.Second):
				require.Fail(t, "the stream goes on", why)
			}
		}
		require.NoError(t, s.app.Accounts.Service.RevokeKey(t.Context(), anna, k.ID))
		within(keyEnded, "the key is revoked")
		require.Equal(t, 200, s.send("", "DELETE", "/v1/auth/session", nil, "Cookie", cookie).status)
		within(sessionEnded, "she signed out")
		within(ticketEnded, "the ticket was of that session")
		select {
		case <-otherEnded: //nolint:errcheck // that it ended is what counts
			require.Fail(t, "the other session is still on")
		default:
		}
		_, err = s.app.Accounts.Service.CreateUser(t.Context(), "root", "")
		require.NoError(t, err)
		root, err := s.app.Accounts.Service.UserByName(t.Context(), "root")
		require.NoError(t, err)
		require.NoError(t, s.app.Accounts.Service.SetRole(t.Context(), anna, root.UID, true))
		require.NoError(t, s.app.Accounts.Service.Disable(t.Context(), uid, true))
		within(otherEnded, "the user is disabled")
	})
}

func TestAdministratorsSeeToUsers(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		ben := s.another("ben")
		for _, c := range [][2]string{{"GET", "/v1/admin/users"}, {"POST", "/v1/admin/users"}, {"GET", "/v1/admin/users/u-1"}, {"PATCH", "/v1/admin/users/u-1"}, {"POST", "/v1/admin/users/u-1/credits"}, {"POST", "/v1/admin/invites"}} {
			require.Equal(t, 403, s.send(ben, c[0], c[1], `{}`).status, c[1])
		}
		type user struct {
			UID, Name, Email, Role, Plan string
			Disabled                     bool
			CreditBalance                float64
			Keys                         []struct{ KeyID, KeyPrefix string }
		}
		ask := func(method, path string, body any) (u user) {
			t.Helper()
			a := s.send(s.key, method, path, body)
			require.Equal(t, 200, a.status, a.raw)
			require.NoError(t, json.Unmarshal(a.body.Data, &u))
			return u
		}
		u := ask("POST", "/v1/admin/users", `{"name":"carol_1","email":"carol@example.com"}`)
		require.Equal(t, "user", u.Role)
		found := s.page("/v1/admin/users?q=CAROL_")
		require.Len(t, found.Items, 1)
		require.Len(t, s.page("/v1/admin/users").Items, 3)
		require.Empty(t, s.page("/v1/admin/users?q=%25").Items, "no wildcard")
		one := "/v1/admin/users/" + u.UID
		require.Equal(t, "admin", ask("PATCH", one, `{"role":"admin"}`).Role)
		require.Equal(t, "user", ask("PATCH", one, `{"role":"user"}`).Role)
		require.InDelta(t, 12.5, ask("POST", one+"/credits", `{"amount":12.5,"id":"cr-one"}`).CreditBalance, 0)
		require.InDelta(t, 12.5, ask("POST", one+"/credits", `{"amount":12.5,"id":"cr-one"}`).CreditBalance, 0)
		require.Equal(t, 404, s.send(s.key, "PATCH", one, `{"plan":"nothing"}`).status)
		require.Equal(t, 400, s.send(s.key, "PATCH", one, `{"password":"short"}`).status)
		require.Equal(t, 400, s.send(s.key, "PATCH", one, `{"role":"king"}`).status)
		ask("PATCH", one, `{"password":"correct horse"}`)
		require.Equal(t, 200, s.send("", "POST", "/v1/auth/session", `{"email":"carol_1","password":"correct horse"}`).status)
		require.True(t, ask("PATCH", one, `{"disabled":true}`).Disabled)
		require.Equal(t, 401, s.send("", "POST", "/v1/auth/session", `{"email":"carol_1","password":"correct horse"}`).status)
		whole := ask("GET", one, nil)
		require.Equal(t, "free", whole.Plan)
		require.Empty(t, whole.Keys)
		var me user
		require.NoError(t, json.Unmarshal(s.send(s.key, "GET", "/v1/auth/me", nil).body.Data, &me))
		mine := "/v1/admin/users/" + me.UID
		require.Equal(t, 409, s.send(s.key, "PATCH", mine, `{"role":"user"}`).status, "the last administrator")
		require.Equal(t, 409, s.send(s.key, "PATCH", mine, `{"disabled":true}`).status)
		require.NotEmpty(t, ask("GET", mine, nil).Keys)
		require.NotContains(t, s.send(s.key, "GET", mine, nil).raw, s.key)
		var actions []string
		for _, item := range s.page("/v1/auth/audit").Items {
			var e struct{ Action, Subject string }
			require.NoError(t, json.Unmarshal(item, &e))
			if e.Subject == u.UID {
				actions = append(actions, e.Action)
			}
		}
		require.Equal(t, []string{"user.disable", "user.password", "credit.grant", "credit.grant", "user.role", "user.role", "user.create"}, actions)
	})
}

package server_test

import (
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/accesstest"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// Every exported method of the service is tried by a user on another user's
// server.
func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	system := map[string]string{
		"Operators": "what operators do has methods of its own",
		"Last":      "takes what Find returned, with the user it was found for",
		"Keep":      "the same",
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db, nil)
		spec := web("his")
		spec.Headers = map[string]string{"X-Key": "{{KEY}}"}
		_, err := s.Add(t.Context(), ben, spec)
		require.NoError(t, err)
		absent := func(t *testing.T, err error) {
			t.Helper()
			require.EqualError(t, err, "E1020: Toolset not found: his.")
		}
		tries := map[string]func(t *testing.T){
			"Find": func(t *testing.T) {
				_, err := s.Find(t.Context(), anna, "his")
				absent(t, err)
			},
			"All": func(t *testing.T) {
				all, err := s.All(t.Context(), anna)
				require.NoError(t, err)
				require.Empty(t, all)
			},
			"List": func(t *testing.T) {
				all, err := s.List(t.Context(), anna)
				require.NoError(t, err)
				require.Empty(t, all)
			},
			"Show": func(t *testing.T) {
				_, err := s.Show(t.Context(), anna, "his")
				absent(t, err)
			},
			"Add": func(t *testing.T) { // the same name is another server
				mine := web("his")
				mine.URL = "https://other.example.com/"
				_, err := s.Add(t.Context(), anna, mine)
				require.NoError(t, err)
				require.NoError(t, s.Remove(t.Context(), anna, "his"))
			},
			"Change": func(t *testing.T) {
				_, err := s.Change(t.Context(), anna, "his", server.Patch{URL: new("https://evil.example.com/")})
				absent(t, err)
			},
			"Remove": func(t *testing.T) { absent(t, s.Remove(t.Context(), anna, "his")) },
			"SetValues": func(t *testing.T) {
				_, err := s.SetValues(t.Context(), anna, "his", map[string]*string{"KEY": new("x")})
				absent(t, err)
			},
		}
		accesstest.Each(t, reflect.TypeFor[*server.Service](), tries, system)
		_, err = s.SetValues(t.Context(), ben, "his", map[string]*string{"KEY": new("his-key")})
		require.NoError(t, err)
		got, err := s.Find(t.Context(), ben, "his")
		require.NoError(t, err)
		require.Equal(t, "https://mcp.example.com/mcp", got.URL)
		require.Equal(t, "his-key", got.Headers["X-Key"])
	})
}

// What is secret is sealed in the database and is shown by name only.
func TestSecretsAreSealedAndNeverShown(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db, nil)
		spec := web("crm")
		spec.Headers = map[string]string{"Authorization": "Bearer the-secret", "X-User": "{{TOKEN}}"}
		spec.URL = "https://mcp.example.com/the-secret/mcp?key=the-secret"
		view, err := s.Add(t.Context(), anna, spec)
		require.NoError(t, err)
		require.Equal(t, []string{"Authorization", "X-User"}, view.Headers)
		require.Equal(t, "https://mcp.example.com", view.Origin)
		view, err = s.SetValues(t.Context(), anna, "crm", map[string]*string{"TOKEN": new("the-secret-value")})
		require.NoError(t, err)
		require.Equal(t, []server.Value{{Name: "TOKEN", Set: true}}, view.Values)
		require.NoError(t, s.Operators().Add(t.Context(), "", server.Spec{
			Name: "local", Transport: server.Stdio, Command: "server", Env: map[string]string{"KEY": "the-secret"},
		}))
		var columns []string
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(`SELECT coalesce(headers, '') || coalesce(env, '') || coalesce(config, '') || coalesce(client, '') FROM mcp_servers
			UNION ALL SELECT placeholders FROM mcp_credentials UNION ALL SELECT detail FROM audit_events`).Scan(&columns).Error)
		require.Len(t, columns, 6)
		require.NotContains(t, strings.Join(columns, "\n"), "the-secret")
		for _, v := range []any{view, must(s.Operators().Show(t.Context(), "", "local"))} {
			require.NotContains(t, strings.ToLower(strings.ReplaceAll(strings.TrimSpace(dump(v)), "the-secret/mcp", "")), "the-secret")
		}
		found, err := s.Find(t.Context(), anna, "crm")
		require.NoError(t, err)
		require.Equal(t, "the-secret-value", found.Headers["X-User"])
	})
}

// Every user of a shared server with placeholders has values of their own, a
// version of their own and a list of their own; without placeholders all are the
// same.
func TestUsersOfASharedServerAreKeptApart(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db, nil)
		personal := web("crm")
		personal.Headers = map[string]string{"Authorization": "Bearer {{TOKEN}}"}
		require.NoError(t, s.Operators().Add(t.Context(), "", personal))
		require.NoError(t, s.Operators().Add(t.Context(), "", web("docs")))

		_, err := s.Find(t.Context(), anna, "crm")
		require.Equal(t, errs.Forbidden, errs.CodeOf(err))
		require.ErrorContains(t, err, "needs values of yours: TOKEN")
		all, err := s.All(t.Context(), anna)
		require.NoError(t, err)
		require.Len(t, all, 1, "the one that lacks values is left out")

		_, err = s.SetValues(t.Context(), anna, "crm", map[string]*string{"TOKEN": new("annas")})
		require.NoError(t, err)
		_, err = s.SetValues(t.Context(), ben, "crm", map[string]*string{"TOKEN": new("bens")})
		require.NoError(t, err)
		hers, err := s.Find(t.Context(), anna, "crm")
		require.NoError(t, err)
		his, err := s.Find(t.Context(), ben, "crm")
		require.NoError(t, err)
		require.Equal(t, "Bearer annas", hers.Headers["Authorization"])
		require.Equal(t, "Bearer bens", his.Headers["Authorization"])
		require.NotEqual(t, hers.Version, his.Version)
		require.NoError(t, s.Keep(t.Context(), hers, server.List{Hash: "h-anna"}))
		got, err := s.Last(t.Context(), his)
		require.NoError(t, err)
		require.Empty(t, got.Hash, "her list is hers")
		require.NoError(t, s.Keep(t.Context(), his, server.List{Hash: "h-ben"}))
		got, err = s.Last(t.Context(), hers)
		require.NoError(t, err)
		require.Equal(t, "h-anna", got.Hash)

		_, err = s.SetValues(t.Context(), anna, "crm", map[string]*string{"TOKEN": new("another")})
		require.NoError(t, err)
		after, err := s.Find(t.Context(), anna, "crm")
		require.NoError(t, err)
		require.NotEqual(t, hers.Version, after.Version, "another value is another connection")
		got, err = s.Last(t.Context(), after)
		require.NoError(t, err)
		require.Empty(t, got.Hash, "what one credential saw is not shown to another")

		one, err := s.Find(t.Context(), anna, "docs")
		require.NoError(t, err)
		require.NoError(t, s.Keep(t.Context(), one, server.List{Hash: "h"}))
		other, err := s.Find(t.Context(), ben, "docs")
		require.NoError(t, err)
		got, err = s.Last(t.Context(), other)
		require.NoError(t, err)
		require.Equal(t, "h", got.Hash)
	})
}

func TestOnesOwnServerComesFirst(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db, nil)
		require.NoError(t, s.Operators().Add(t.Context(), "", web("docs")))
		mine := web("docs")
		mine.URL = "https://own.example.com/mcp"
		_, err := s.Add(t.Context(), anna, mine)
		require.NoError(t, err)
		got, err := s.Find(t.Context(), anna, "docs")
		require.NoError(t, err)
		require.Equal(t, "https://own.example.com/mcp", got.URL)
		_, err = s.Change(t.Context(), anna, "docs", server.Patch{Enabled: new(false)})
		require.NoError(t, err)
		got, err = s.Find(t.Context(), anna, "docs")
		require.NoError(t, err)
		require.Equal(t, "https://mcp.example.com/mcp", got.URL)
		view, err := s.Add(t.Context(), anna, web("gmail"))
		require.NoError(t, err)
		require.Equal(t, "toolset gmail", view.Hides)
		err = s.Operators().Add(t.Context(), "", web("gmail"))
		require.Equal(t, errs.Conflict, errs.CodeOf(err), "for everybody a name means one thing")
	})
}

func TestWhatUsersMayNotAdd(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db, nil)
		change := func(f func(s *server.Spec)) server.Spec {
			spec := web("x")
			f(&spec)
			return spec
		}
		at := func(url string) server.Spec { return change(func(s *server.Spec) { s.URL = url }) }
		for what, c := range map[string]struct {
			spec server.Spec
			code errs.Code
		}{
			"a process":          {server.Spec{Name: "x", Transport: server.Stdio, Command: "sh"}, errs.Forbidden},
			"a hidden process":   {change(func(s *server.Spec) { s.Command = "sh" }), errs.Forbidden},
			"networks":           {change(func(s *server.Spec) { s.Egress = annasNetworks() }), errs.Forbidden},
			"a price":            {change(func(s *server.Spec) { s.Price = money.Credit }), errs.Forbidden},
			"http":               {at("http://mcp.example.com/"), errs.Forbidden},
			"loopback":           {at("https://127.0.0.1/"), errs.Forbidden},
			"loopback over http": {at("http://127.0.0.1:8080/"), errs.Forbidden},
			"loopback in IPv6":   {at("https://[::ffff:127.0.0.1]/"), errs.Forbidden},
			"metadata":           {at("https://169.254.169.254/latest"), errs.Forbidden},
			"a private network":  {at("https://10.2.0.1/"), errs.Forbidden},
			"a file":             {at("file:///etc/passwd"), errs.Forbidden},
			"no host":            {at("https:///x"), errs.Invalid},
			"a password":         {at("https://u:p@mcp.example.com/"), errs.Invalid},
			"a host header":      {change(func(s *server.Spec) { s.Headers = map[string]string{"host": "x"} }), errs.Invalid},
			"a session header":   {change(func(s *server.Spec) { s.Headers = map[string]string{"mcp-session-id": "x"} }), errs.Invalid},
			"two lines":          {change(func(s *server.Spec) { s.Headers = map[string]string{"X": "a\r\nb"} }), errs.Invalid},
			"two credentials": {change(func(s *server.Spec) {
				s.OAuth, s.Headers = true, map[string]string{"authorization": "x"}
			}), errs.Invalid},
			"an upper-case name":  {web("X"), errs.Invalid},
			"two underscores":     {web("a__b"), errs.Invalid},
			"a last underscore":   {web("a_"), errs.Invalid},
			"a long name":         {web(strings.Repeat("a", 33)), errs.Invalid},
			"a builtin's name":    {web("execute_code"), errs.Conflict},
			"this server's name":  {web("portico"), errs.Conflict},
			"no name":             {web(""), errs.Invalid},
			"a refresh too often": {change(func(s *server.Spec) { s.Refresh = time.Second }), errs.Invalid},
		} {
			_, err := s.Add(t.Context(), anna, c.spec)
			require.Equal(t, c.code, errs.CodeOf(err), "%s: %v", what, err)
		}
		all, err := s.List(t.Context(), anna)
		require.NoError(t, err)
		require.Empty(t, all)
		view, err := s.Add(t.Context(), anna, at("http://10.1.2.3:8080/mcp"))
		require.NoError(t, err, "a network that the operator opened to the servers of users")
		require.Equal(t, "http://10.1.2.3:8080", view.Origin)
		_, err = s.Change(t.Context(), anna, "x", server.Patch{URL: new("http://10.2.2.3:8080/mcp")})
		require.Equal(t, errs.Forbidden, errs.CodeOf(err), "what may not be added is not reached by a change")
	})
}

func TestUsersHaveABoundedNumberOfServers(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db, nil)
		results := make(chan error, 8)
		var wg sync.WaitGroup
		for i := range cap(results) {
			wg.Go(func() {
				_, err := s.Add(t.Context(), anna, web("s"+string(rune('a'+i))))
				results <- err
			})
		}
		wg.Wait()
		close(results)
		added := 0
		for err := range results {
			if err == nil {
				added++
				continue
			}
			require.Equal(t, errs.Conflict, errs.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, "at most 3")
		}
		require.Equal(t, 3, added)
		_, err := s.Add(t.Context(), ben, web("x"))
		require.NoError(t, err)
	})
}

// A change counts at once in the process that makes it, although what is there is
// known for a second.
func TestChangesCountAtOnce(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			hub := &wake.Hub{}
			db := databasetest.Open(t, d, hub.Publish)
			s := service(t, db, hub)
			for _, owner := range []string{"", anna.UID} {
				_, err := s.Find(t.Context(), anna, "docs")
				require.Equal(t, errs.ToolsetMissing, errs.CodeOf(err))
				require.NoError(t, s.Operators().Add(t.Context(), owner, web("docs")))
				got, err := s.Find(t.Context(), anna, "docs")
				require.NoError(t, err)
				require.NoError(t, s.Operators().SetPrice(t.Context(), owner, "docs", "search", money.Credit))
				priced, err := s.Find(t.Context(), anna, "docs")
				require.NoError(t, err)
				require.Equal(t, money.Credit, priced.Prices["search"])
				require.Equal(t, got.Version, priced.Version, "a price ends no connection")
				require.NoError(t, s.Operators().Pin(t.Context(), owner, "docs", server.List{Tools: []server.Tool{{Name: "search", Hash: "h"}}}))
				pinned, err := s.Find(t.Context(), anna, "docs")
				require.NoError(t, err)
				require.Equal(t, map[string]string{"search": "h"}, pinned.Pins)
				require.NoError(t, s.Operators().Unpin(t.Context(), owner, "docs"))
				require.NoError(t, s.Operators().Remove(t.Context(), owner, "docs"))
				_, err = s.Find(t.Context(), anna, "docs")
				require.Equal(t, errs.ToolsetMissing, errs.CodeOf(err))
			}
		})
	}
}

// What was sealed with another key takes nothing else away.
func TestAServerThatCannotBeReadIsAlone(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db, nil)
		require.NoError(t, s.Operators().Add(t.Context(), "", web("docs")))
		connectortest.Exec(t, db, `INSERT INTO mcp_servers (name, type, is_global, url, headers) VALUES ('old', 'streamable', true, 'https://x.example.com', 'ff')`)
		connectortest.Exec(t, db, `INSERT INTO mcp_servers (name, type, is_global, uid, url, headers) VALUES ('plain', 'streamable', false, 'u-anna', 'https://x.example.com', '{"X-Key":"written elsewhere"}')`)
		all, err := s.All(t.Context(), anna)
		require.NoError(t, err)
		require.Len(t, all, 2)
		require.Equal(t, "written elsewhere", all[1].Headers["X-Key"])
		_, err = s.Find(t.Context(), anna, "old")
		require.Equal(t, errs.Unavailable, errs.CodeOf(err))
		views, err := s.List(t.Context(), anna)
		require.NoError(t, err)
		require.Len(t, views, 3)
		require.Error(t, views[1].Problem)
		require.NoError(t, s.Operators().Remove(t.Context(), "", "old"))
	})
}

func TestRows(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, row := range server.Rows() {
			databasetest.CheckRow(t, db, row)
		}
	})
}

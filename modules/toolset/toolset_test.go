package toolset_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/connector/composio"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/connector/rest"
	"github.com/portico-run/portico/modules/connector/vendors"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/file"
	"github.com/portico-run/portico/modules/toolset/install"
	"github.com/portico-run/portico/modules/toolset/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

const key = "sk-upstream-1234"

var anna, ben = actor.Actor{UID: "u-anna", Scope: actor.Full}, actor.Actor{UID: "u-ben", Scope: actor.Full}

func service(t *testing.T, db *database.DB) *connectortest.Toolsets {
	t.Helper()
	for _, a := range []actor.Actor{anna, ben} {
		connectortest.Exec(t, db, `INSERT INTO users (uid, name) VALUES (?, ?)`, a.UID, a.UID)
	}
	return connectortest.New(t, db, nil, map[string]string{"WEATHER_URL": "http://127.0.0.1:9", "WEATHER_KEY": key})
}

func files(t *testing.T, names ...string) []file.File {
	t.Helper()
	var out []file.File
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		out = append(out, file.File{Name: name, Content: content})
	}
	return out
}

func TestApplyIsIdempotentAndSeesEveryChange(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db)
		fs := files(t, "weather.yaml")
		r, err := s.Files.Apply(t.Context(), fs)
		require.NoError(t, err)
		require.Equal(t, store.Report{Created: []string{"weather", "private"}}, r)
		r, err = s.Files.Apply(t.Context(), fs)
		require.NoError(t, err)
		require.Equal(t, store.Report{Unchanged: []string{"weather", "private"}}, r)

		for _, change := range [][2]string{
			{"name: Weather", "name: Wetter"},
			{"${WEATHER_URL}/", "${WEATHER_URL}/v2"},
			{"天气", "氣象"},
			{"of cities", "of towns"},
			{"X-Key", "X-Other"},
			{"127.0.0.0/8", "10.0.0.0/8"},
			{"forecast: 2", "forecast: 3"},
			{"next days", "next weeks"},
			{"/cities/{city}/forecast", "/forecast/{city}"},
			{"method: get", "method: delete"},
			{"default: 3", "default: 4"},
			{"response: {type: object}", "response: {type: array}"},
			{"timeout: 5000", "timeout: 6000"},
		} {
			text := string(fs[0].Content)
			require.Contains(t, text, change[0])
			fs[0].Content = []byte(strings.Replace(text, change[0], change[1], 1))
			r, err = s.Files.Apply(t.Context(), fs)
			require.NoError(t, err, change)
			require.Equal(t, store.Report{Updated: []string{"weather"}, Unchanged: []string{"private"}}, r, change)
		}
		found, err := s.Identify(t.Context(), anna, "weather")
		require.NoError(t, err)
		m, c, err := s.Method(t.Context(), anna, found, "forecast")
		require.NoError(t, err)
		require.Equal(t, "/forecast/{city}", m.Endpoint)
		require.Equal(t, "X-Other", c.Name)
	})
}

func TestApplySwitchesOffWhatIsGone(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db)
		fs := files(t, "weather.yaml")
		_, err := s.Files.Apply(t.Context(), fs)
		require.NoError(t, err)
		before, err := s.Identify(t.Context(), anna, "weather")
		require.NoError(t, err)
		whole := string(fs[0].Content)
		i, j := strings.Index(whole, "  - name: report"), strings.Index(whole, "---\n")
		cut := strings.Replace(whole[:i]+whole[j:], `, report: {enabled: true, type: per_quantity, quantityField: text, creditsPerUnit: 1}`, "", 1)
		_, err = s.Files.Apply(t.Context(), []file.File{{Name: "w", Content: []byte(cut)}})
		require.NoError(t, err)

		now, err := s.Identify(t.Context(), anna, "weather")
		require.NoError(t, err)
		_, _, err = s.Method(t.Context(), anna, now, "report")
		require.Equal(t, "Method 'report' not found in toolset 'weather'. Available methods: forecast", errs.Message(err))
		_, _, err = s.Method(t.Context(), anna, before, "report")
		require.NoError(t, err, "a call that had begun lost its method")

		r, err := s.Files.Apply(t.Context(), files(t, "weather.yaml"))
		require.NoError(t, err)
		require.Equal(t, []string{"weather"}, r.Updated)
		now, err = s.Identify(t.Context(), anna, "weather")
		require.NoError(t, err)
		_, _, err = s.Method(t.Context(), anna, now, "report")
		require.NoError(t, err)
	})
}

func TestApplyTwiceAtOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db)
		fs := files(t, "weather.yaml")
		done := make(chan error)
		for range 4 {
			go func() {
				_, err := s.Files.Apply(t.Context(), fs)
				done <- err
			}()
		}
		for range 4 {
			require.NoError(t, <-done)
		}
		items, err := s.Installs.Inventory(t.Context())
		require.NoError(t, err)
		require.Len(t, slices.DeleteFunc(items, func(i install.InventoryItem) bool { return i.Builtin }), 2)
	})
}

func TestIdentifyFollowsTheTree(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db)
		_, err := s.Files.Apply(t.Context(), files(t, "weather.yaml"))
		require.NoError(t, err)
		n := 0
		add := func(uid any, key, auth string, more string) {
			n++
			connectortest.Exec(t, db, `INSERT INTO toolsets (toolset_id, is_global, uid, name, key, auth_type`+column(more)+`)
				VALUES (?, ?, ?, ?, ?, ?`+value(more)+`)`, fmt.Sprint("ts-", n), uid == nil, uid, key, key, auth)
		}
		add(nil, "gmail", "oauth", "")
		add(nil, "exa", "external_apikey", "")
		add(nil, "jina", "credentials", "")
		add(nil, "gone", "config_based", "")
		add(nil, "off", "config_based", "enabled=false")
		add(nil, "removed", "config_based", "uninstalled=true")
		add("u-ben", "secretive", "external_apikey", "")
		add("u-anna", "exa", "oauth", "")
		connectortest.Exec(t, db, `INSERT INTO composio_connections (uid, integration_id, connected_account_id) VALUES ('u-ben', 'gmail', 'ca-ben')`)
		connectortest.Exec(t, db, `INSERT INTO composio_connections (uid, integration_id, connected_account_id, status) VALUES ('u-anna', 'exa', 'ca-old', 'revoked')`)
		connectortest.Exec(t, db, `INSERT INTO mcp_servers (name, type, uid) VALUES ('weather', 'sse', 'u-ben')`)
		connectortest.Exec(t, db, `INSERT INTO mcp_servers (name, type, uid, enabled) VALUES ('jina', 'sse', 'u-anna', false)`)

		for _, c := range []struct {
			who  actor.Actor
			key  string
			want toolset.Kind
			err  string
		}{
			{anna, "web_search", toolset.Builtin, ""},
			{anna, "weather", rest.Kind, ""},
			{ben, "weather", toolset.MCP, ""}, // Ben's server of that name comes first
			{anna, "jina", vendors.Kind, ""},
			{ben, "gmail", composio.KindOAuth, ""},
			{anna, "gmail", "", "OAuth connection not authorized for toolset: gmail."},
			{ben, "exa", composio.KindAPIKey, ""},
			{anna, "exa", "", "OAuth connection not authorized for toolset: exa."}, // Anna's row before everybody's
			{anna, "secretive", "", "Toolset not found: secretive."},
			{ben, "secretive", composio.KindAPIKey, ""},
			{anna, "gone", "", "Toolset not found: gone."},
			{anna, "off", "", "Toolset not found: off."},
			{anna, "removed", "", "Toolset not found: removed."},
			{anna, "private", "", "Toolset not found: private."},
			{anna, "", "", "Toolset not found: ."},
		} {
			got, err := s.Identify(t.Context(), c.who, c.key)
			if c.err != "" {
				require.Error(t, err, c.key)
				require.Equal(t, c.err, errs.Message(err))
				continue
			}
			require.NoError(t, err, c.key)
			require.Equal(t, c.want, got.Kind, c.key)
			if c.key == "gmail" {
				require.Equal(t, "ca-ben", got.Account)
			}
		}
	})
}

func column(assignment string) string {
	name, _, ok := strings.Cut(assignment, "=")
	if !ok {
		return ""
	}
	return ", " + name
}

func value(assignment string) string {
	_, v, ok := strings.Cut(assignment, "=")
	if !ok {
		return ""
	}
	return ", " + v
}

func TestMethodCarriesTheRightCredential(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db)
		_, err := s.Files.Apply(t.Context(), files(t, "weather.yaml"))
		require.NoError(t, err)
		for id, auth := range map[string]string{"u-anna": `{"apiKey":"annas-own"}`, "u-ben": ""} {
			var data any
			if auth != "" {
				data = s.Box.Seal([]byte(auth))
			}
			connectortest.Exec(t, db, `INSERT INTO toolsets (toolset_id, uid, name, key, auth_data) VALUES (?, ?, 'w', 'weather', ?)`, "ts-"+id, id, data)
		}
		got, err := s.Identify(t.Context(), anna, "weather")
		require.NoError(t, err)
		require.False(t, got.Global)
		m, c, err := s.Method(t.Context(), anna, got, "forecast")
		require.NoError(t, err)
		require.Equal(t, toolset.Credential{Type: toolset.Automatic, Value: "annas-own"}, c)
		require.Equal(t, "GET", m.HTTPMethod)
		require.Equal(t, "http://127.0.0.1:9", got.Domain)
		require.Equal(t, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, got.Egress)
		quote, err := got.Prices.Price("forecast", nil, nil)
		require.NoError(t, err)
		require.Equal(t, 2*money.Credit, quote.Price)

		got, err = s.Identify(t.Context(), ben, "weather")
		require.NoError(t, err)
		_, c, err = s.Method(t.Context(), ben, got, "forecast")
		require.NoError(t, err)
		require.True(t, c.None(), "the operator's is for what is billed")
		carl := actor.Actor{UID: "u-carl", Scope: actor.Full} // has none of his own
		got, err = s.Identify(t.Context(), carl, "weather")
		require.NoError(t, err)
		_, c, err = s.Method(t.Context(), carl, got, "forecast")
		require.NoError(t, err)
		require.Equal(t, toolset.Credential{Type: toolset.Header, Name: "X-Key", Value: key}, c)

		// A credential that cannot be opened is an error, never no credential.
		connectortest.Exec(t, db, `UPDATE toolsets SET auth_data = 'ffff' WHERE uid = 'u-ben'`)
		got, err = s.Identify(t.Context(), ben, "weather")
		require.NoError(t, err)
		_, _, err = s.Method(t.Context(), ben, got, "forecast")
		require.ErrorContains(t, err, "Toolset weather cannot be used")
	})
}

func TestCredentialsAreSealedInTheDatabase(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db)
		_, err := s.Files.Apply(t.Context(), files(t, "weather.yaml"))
		require.NoError(t, err)
		stored := storedKey(t, db, "weather")
		require.NotContains(t, stored, key)
		opened, err := s.Box.Open(stored)
		require.NoError(t, err)
		require.Contains(t, string(opened), key)
	})
}

func TestSecretsDoNotShow(t *testing.T) {
	t.Parallel()
	c := toolset.Credential{Type: toolset.Bearer, Value: key}
	text, err := json.Marshal(c)
	require.NoError(t, err)
	for _, shown := range []string{string(text), fmt.Sprint(c), fmt.Sprintf("%+v %#v %q %x %s", c, c, c, c, c.Value), c.Value.LogValue().String()} {
		require.NotContains(t, shown, key)
		require.NotContains(t, shown, fmt.Sprintf("%x", key))
		require.Contains(t, shown, "[redacted]")
	}
	require.Equal(t, key, c.Value.Reveal())
}

func TestExport(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db)
		_, err := s.Files.Apply(t.Context(), files(t, "weather.yaml"))
		require.NoError(t, err)
		connectortest.Exec(t, db, `INSERT INTO toolsets (toolset_id, is_global, name, key, auth_type) VALUES ('ts-g', true, 'g', 'gmail', 'oauth')`)
		connectortest.Exec(t, db, `INSERT INTO toolsets (toolset_id, uid, name, key) VALUES ('ts-p', 'u-ben', 'p', 'private')`)

		all, failures, err := s.Export(t.Context(), anna, nil)
		require.NoError(t, err)
		require.Empty(t, failures)
		text, err := json.MarshalIndent(all, "", "  ")
		require.NoError(t, err)
		golden(t, "export.json", string(text)+"\n")

		some, failures, err := s.Export(t.Context(), anna, []string{"weather", "private", "gmail", "web_search", "nothing"})
		require.NoError(t, err)
		require.Len(t, some, 1)
		var lines []string
		for _, f := range failures {
			lines = append(lines, f.Key+" "+f.Problem.Error())
		}
		require.Equal(t, []string{
			"private E1020: Toolset not found: private.",
			"gmail E0001: Toolset gmail is one of Composio's, and this server is not connected to Composio.",
			"web_search E0003: Toolset web_search is builtin and is not exported.",
			"nothing E1020: Toolset not found: nothing.",
		}, lines)

		bens, _, err := s.Export(t.Context(), ben, nil)
		require.NoError(t, err)
		require.Len(t, bens, 2)

		mine, err := s.Installs.Toolsets(t.Context(), anna)
		require.NoError(t, err)
		for _, i := range mine {
			require.NotEqual(t, "private", i.Key)
		}
	})
}

// A server of MCP is no toolset that can be exported, also for its owner.
func TestServersAreNotExported(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := service(t, db)
		connectortest.Exec(t, db, `INSERT INTO mcp_servers (name, type, uid) VALUES ('mine', 'sse', 'u-anna')`)
		all, failures, err := s.Export(t.Context(), anna, nil)
		require.NoError(t, err)
		require.Empty(t, all)
		require.Empty(t, failures)
		all, failures, err = s.Export(t.Context(), anna, []string{"mine"})
		require.NoError(t, err)
		require.Empty(t, all)
		require.Len(t, failures, 1)
		require.Equal(t, errs.ToolsetMissing, errs.CodeOf(failures[0].Problem))
	})
}

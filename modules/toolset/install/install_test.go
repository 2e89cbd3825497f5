package install_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/connector/vendors"
	"github.com/portico-run/portico/modules/toolset/file"
	"github.com/portico-run/portico/modules/toolset/install"
)

const installable = `
key: mail
name: Mail
global: false
billing: 1
authPatterns:
  - type: credentials
    credentialItems:
      - {key: apiKey, inputMode: text, required: true}
      - {key: region, inputMode: select, options: [{value: eu}, {value: us}]}
configItems:
  - {key: batch, inputMode: number, inputProps: {min: 1, max: 10, step: 3}}
  - {key: formats, inputMode: multiSelect, options: [{value: text}, {value: html}]}
  - {key: quiet, inputMode: switch}
  - {key: note, inputMode: textarea}
methods: [{name: send, endpoint: "https://mail.example.com/send"}]
`

func TestAUserInstallsChangesAndUninstalls(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := connected(t, db)
		_, err := s.Files.Apply(t.Context(), append(weather(t), file.File{Name: "mail.yaml", Content: []byte(installable)}))
		require.NoError(t, err)
		refused := func(code errs.Code, says string, in install.Upsert) {
			t.Helper()
			_, err := s.Installs.Install(t.Context(), anna, in)
			require.Equal(t, code, errs.CodeOf(err), "%v", err)
			var e *errs.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Message+" "+e.Detail, says)
			require.NotContains(t, e.Message+e.Detail, "sk-secret")
		}
		data := map[string]any{"apiKey": "sk-secret-1"}
		refused(errs.Invalid, "name and key", install.Upsert{Key: "mail"})
		refused(errs.ToolsetMissing, "nothing", install.Upsert{Name: "x", Key: "nothing"})
		refused(errs.Invalid, "authType must be there: credentials", install.Upsert{Name: "Mail", Key: "mail"})
		refused(errs.Invalid, "authType oauth does not go with mail", install.Upsert{Name: "Mail", Key: "mail", AuthType: "oauth"})
		refused(errs.Invalid, "apiKey is missing", install.Upsert{Name: "Mail", Key: "mail", AuthType: "credentials"})
		for what, in := range map[string]map[string]any{
			"apiKey must be a text":             {"apiKey": 7.0},
			"region must be one of eu, us":      {"apiKey": "sk-secret", "region": "sk-secret"},
			"password is not one of: apiKey":    {"apiKey": "sk-secret", "password": "sk-secret"},
			"apiKey must not hold NUL":          {"apiKey": "sk-secret\x00"},
			"apiKey is missing; region must be": {"region": true},
			"apiKey must not hold a line break": {"apiKey": "sk-secret\n"},
		} {
			refused(errs.Invalid, what, install.Upsert{Name: "Mail", Key: "mail", AuthType: "credentials", AuthData: in})
		}
		for what, in := range map[string]map[string]any{
			"batch must be a number":               {"batch": "3"},
			"batch must be at least 1":             {"batch": 0.0},
			"batch must be at most 10":             {"batch": 13.0},
			"batch must go in steps of 3":          {"batch": 3.0},
			"formats must be a list of text, html": {"formats": []any{"text", "pdf"}},
			"quiet must be true or false":          {"quiet": "yes"},
			"note must be a text":                  {"note": 1.0},
			"other is not one of: batch, formats":  {"other": 1.0},
		} {
			refused(errs.Invalid, what, install.Upsert{Name: "Mail", Key: "mail", AuthType: "credentials", AuthData: data, Config: in})
		}
		refused(errs.Invalid, "takes no credential", install.Upsert{Name: "W", Key: "weather", AuthData: data})
		refused(errs.Invalid, "Connect the account first", install.Upsert{Name: "G", Key: "gmail", AuthType: "oauth"})

		made, err := s.Installs.Install(t.Context(), anna, install.Upsert{Name: "Mail", Key: "mail", AuthType: "credentials", AuthData: data, Config: map[string]any{"batch": 4.0, "quiet": true}})
		require.NoError(t, err)
		require.JSONEq(t, `{"batch":4,"quiet":true}`, string(made.Config))
		refused(errs.Conflict, "You have a toolset of this key", install.Upsert{Name: "Mail", Key: "mail", AuthType: "credentials", AuthData: data})
		key := func() string {
			t.Helper()
			found, err := s.Identify(t.Context(), anna, "mail")
			require.NoError(t, err)
			_, c, err := s.Method(t.Context(), anna, found, "send")
			require.NoError(t, err)
			return c.Value.Reveal()
		}
		require.Equal(t, "sk-secret-1", key())

		off, name := false, "Post"
		changed, err := s.Installs.Update(t.Context(), anna, install.Upsert{ToolsetID: made.ToolsetID, Name: name, AuthData: map[string]any{"apiKey": "sk-secret-2"}})
		require.NoError(t, err)
		require.Equal(t, "Post", changed.Name)
		require.Equal(t, "sk-secret-2", key())
		_, err = s.Installs.Update(t.Context(), anna, install.Upsert{ToolsetID: made.ToolsetID, Config: map[string]any{"batch": 7.0}})
		require.NoError(t, err)
		require.Equal(t, "sk-secret-2", key(), "what is left out stays")
		_, err = s.Installs.Update(t.Context(), anna, install.Upsert{ToolsetID: made.ToolsetID, Key: "weather"})
		require.Equal(t, errs.Invalid, errs.CodeOf(err))
		_, err = s.Installs.Update(t.Context(), anna, install.Upsert{ToolsetID: made.ToolsetID, AuthData: map[string]any{}})
		require.Equal(t, errs.Invalid, errs.CodeOf(err))
		_, err = s.Installs.Update(t.Context(), anna, install.Upsert{ToolsetID: made.ToolsetID, Enabled: &off})
		require.NoError(t, err)
		_, err = s.Identify(t.Context(), anna, "mail")
		require.Error(t, err)

		// What is everybody's is changed by nobody here.
		all, err := s.Installs.Toolsets(t.Context(), anna)
		require.NoError(t, err)
		for _, i := range all {
			if i.Global {
				_, err = s.Installs.Update(t.Context(), anna, install.Upsert{ToolsetID: i.ToolsetID, Name: "mine now"})
				require.ErrorIs(t, err, install.ErrGlobal)
				require.Equal(t, errs.ToolsetMissing, errs.CodeOf(s.Installs.Uninstall(t.Context(), anna, i.ToolsetID)))
			}
		}

		require.NoError(t, s.Installs.Uninstall(t.Context(), anna, made.ToolsetID))
		require.Error(t, s.Installs.Uninstall(t.Context(), anna, made.ToolsetID))
		again, err := s.Installs.Install(t.Context(), anna, install.Upsert{Name: "Mail", Key: "mail", AuthType: "credentials", AuthData: map[string]any{"apiKey": "sk-secret-3"}})
		require.NoError(t, err)
		require.Equal(t, made.ToolsetID, again.ToolsetID)
		require.Empty(t, again.Config)
		require.Equal(t, "sk-secret-3", key())

		events, _, err := audit.List(db.Read(t.Context()), anna.UID, database.Window{Limit: 100})
		require.NoError(t, err)
		var actions []string
		for _, e := range events {
			actions = append(actions, e.Action+" "+e.Detail["credential"])
			for _, v := range e.Detail {
				require.NotContains(t, v, "sk-secret")
			}
		}
		require.Equal(t, []string{"toolset.install ", "toolset.uninstall ", "toolset.update kept", "toolset.update kept", "toolset.update changed", "toolset.install "}, actions)
	})
}

// A user's own toolset comes before everybody's of the same key, and taking it
// over is not possible.
func TestAnOwnToolsetBesideEverybodys(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := connected(t, db)
		_, err := s.Files.Apply(t.Context(), []file.File{{Name: "p.yaml", Content: []byte("{key: perplexity, name: Perplexity, egress: {allow: [127.0.0.0/8]}, credential: {value: operators-key}, config: {baseUrl: 'http://127.0.0.1:9'}}")}})
		require.NoError(t, err)
		before, err := s.Identify(t.Context(), anna, "perplexity")
		require.NoError(t, err)
		require.True(t, before.Global)
		require.Equal(t, "http://127.0.0.1:9", before.Config["baseUrl"])
		_, c, err := s.Method(t.Context(), anna, before, "search")
		require.NoError(t, err)
		require.Equal(t, "operators-key", c.Value.Reveal())

		_, err = s.Installs.Install(t.Context(), anna, install.Upsert{Name: "Mine", Key: "perplexity", AuthType: "credentials", AuthData: map[string]any{"apiKey": "annas-key"}})
		require.NoError(t, err)
		mine, err := s.Identify(t.Context(), anna, "perplexity")
		require.NoError(t, err)
		require.False(t, mine.Global)
		require.Equal(t, vendors.Kind, mine.Kind)
		require.Equal(t, "https://api.perplexity.ai", mine.Domain)
		_, c, err = s.Method(t.Context(), anna, mine, "search")
		require.NoError(t, err)
		require.Equal(t, "annas-key", c.Value.Reveal())
		theirs, err := s.Identify(t.Context(), ben, "perplexity")
		require.NoError(t, err)
		require.Equal(t, before.ToolsetID, theirs.ToolsetID)

		// What the operator opened is for the operator's addresses.
		require.NotEmpty(t, before.Egress)
		require.NotEmpty(t, mine.Egress)
		_, err = s.Installs.Update(t.Context(), anna, install.Upsert{ToolsetID: mine.ToolsetID, Config: map[string]any{"baseUrl": "http://127.0.0.1:22"}})
		require.NoError(t, err)
		mine, err = s.Identify(t.Context(), anna, "perplexity")
		require.NoError(t, err)
		require.Equal(t, "http://127.0.0.1:22", mine.Config["baseUrl"])
		require.Empty(t, mine.Egress)

		// The operator's credential is for what is billed: a user's own toolset
		// without one has none.
		_, err = s.Files.Apply(t.Context(), weather(t))
		require.NoError(t, err)
		_, err = s.Installs.Install(t.Context(), anna, install.Upsert{Name: "For nothing", Key: "weather"})
		require.NoError(t, err)
		own, err := s.Identify(t.Context(), anna, "weather")
		require.NoError(t, err)
		require.False(t, own.Global)
		_, c, err = s.Method(t.Context(), anna, own, "forecast")
		require.NoError(t, err)
		require.True(t, c.None())

		items, err := s.Installs.Inventory(t.Context())
		require.NoError(t, err)
		for _, i := range items {
			if i.Key == "perplexity" {
				require.Equal(t, "apiKey", i.Patterns[0].CredentialItems[0].Key)
				require.Len(t, i.Methods(), 2)
			}
		}
		defs, failures, err := s.Export(t.Context(), anna, []string{"perplexity"})
		require.NoError(t, err)
		require.Empty(t, failures)
		require.NotContains(t, string(defs[0].Tools[0].InputSchema), "file_name_title")
	})
}

// What a file says of a method goes before what its HTTP method lets one guess.
func TestOneToolReadsAsItsFileSays(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := connected(t, db)
		s.Fill(t, `
key: shop
name: Shop
domain: https://shop.example.com
billing: 0
methods:
  - {name: purge, endpoint: /purge, method: GET, read_only: false}
  - {name: search, endpoint: /search, method: POST, read_only: true}
  - {name: show, endpoint: /show, method: GET}
`)
		one, err := s.Installs.One(t.Context(), anna, "shop")
		require.NoError(t, err)
		reads := map[string]bool{}
		for _, tool := range one.Tools {
			reads[tool.Name] = *tool.ReadOnly
		}
		require.Equal(t, map[string]bool{"purge": false, "search": true, "show": true}, reads)
	})
}

package store_test

import (
	"encoding/json"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/install"
	"github.com/portico-run/portico/modules/toolset/store"
)

// Storing the same again changes nothing; whatever a spec says otherwise is
// noticed, once.
func TestStoreNoticesEveryChange(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		spec := mail()
		require.Equal(t, store.Report{Created: []string{"mail"}}, f.store(spec))
		require.Equal(t, store.Report{Unchanged: []string{"mail"}}, f.store(spec))
		for name, change := range map[string]func(s *store.Spec){
			"name":             func(s *store.Spec) { s.Name = "Post" },
			"domain":           func(s *store.Spec) { s.Domain = "https://post.example.com" },
			"no labels":        func(s *store.Spec) { s.Labels = nil },
			"descriptions":     func(s *store.Spec) { s.Descriptions = map[string]string{"en": "Posts"} },
			"credential":       func(s *store.Spec) { s.Credential = &toolset.Credential{Type: toolset.Bearer, Value: "sk-new"} },
			"no egress":        func(s *store.Spec) { s.Egress = nil },
			"egress":           func(s *store.Spec) { s.Egress = []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")} },
			"prices":           func(s *store.Spec) { s.Prices = json.RawMessage(`{"send":3,"read":0}`) },
			"patterns":         func(s *store.Spec) { s.Patterns = nil },
			"items":            func(s *store.Spec) { s.Items = []install.Item{{Key: "zone", InputMode: "text"}} },
			"config":           func(s *store.Spec) { s.Config = nil },
			"how users log in": func(s *store.Spec) { s.AuthType = toolset.AuthCredentials },
			"a method":         func(s *store.Spec) { s.Methods[0].Endpoint = "/v2/send" },
			"a schema":         func(s *store.Spec) { s.Methods[1].Request = json.RawMessage(`{}`) },
			"an adapter":       func(s *store.Spec) { s.Methods[1].Adapter.TimeoutMS = 7 },
			"callers":          func(s *store.Spec) { s.Methods[1].AllowedCallers = "code" },
			"a version":        func(s *store.Spec) { s.Methods[1].Version = 2 },
			"a formula":        func(s *store.Spec) { s.Methods[1].Rules = json.RawMessage(`[1]`) },
			"prices of tokens": func(s *store.Spec) {
				s.Methods[0].Rules, s.Methods[0].TokenPricing = json.RawMessage(`[2]`), json.RawMessage(`{"inputPer1MUsd":2}`)
			},
			"a schema that tools share": func(s *store.Spec) { s.Schemas["Letter"] = json.RawMessage(`{"type":"object"}`) },
			"a schema more":             func(s *store.Spec) { s.Schemas["Note"] = json.RawMessage(`{}`) },
			"no schemas":                func(s *store.Spec) { s.Schemas = nil },
			"one method less":           func(s *store.Spec) { s.Methods = s.Methods[:1] },
			"switched off":              func(s *store.Spec) { s.Enabled = false },
			"nobody's":                  func(s *store.Spec) { s.Global = false },
		} {
			spec := mail()
			f.store(spec)
			change(&spec)
			require.Equal(t, store.Report{Updated: []string{"mail"}}, f.store(spec), name)
			require.Equal(t, store.Report{Unchanged: []string{"mail"}}, f.store(spec), name)
			require.Zero(t, f.count("SELECT count(*) FROM toolset_inventory WHERE domain = '' OR egress = '' OR credit_billing = ''"), "%s: nothing is NULL", name)
			require.Equal(t, store.Report{Updated: []string{"mail"}}, f.store(mail()), name)
		}
	})
}

// The operator's credential is sealed, calls of all users carry it, and each
// change of it is in the audit log.
func TestStoreSealsTheCredential(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		changes := func() int {
			return f.count("SELECT count(*) FROM audit_events WHERE action = 'inventory.credential' AND subject = 'mail'")
		}
		f.store(mail())
		require.Equal(t, secret, f.credential(anna, "mail", "send"))
		require.Equal(t, secret, f.credential(ben, "mail", "send"))
		require.Zero(t, f.count("SELECT count(*) FROM toolset_inventory WHERE api_key LIKE ?", "%"+secret+"%"))
		require.Equal(t, 1, changes())

		renamed := mail()
		renamed.Name = "Post"
		f.store(renamed)
		require.Equal(t, 1, changes(), "only the name was changed")

		// One that cannot be opened any more is replaced.
		other := f.service(otherBox(t))
		r, err := other.Store(t.Context(), []store.Spec{renamed})
		require.NoError(t, err)
		require.Equal(t, store.Report{Updated: []string{"mail"}}, r)
		require.Equal(t, 2, changes())

		without := mail()
		without.Credential = nil
		f.store(without)
		require.Equal(t, 1, f.count("SELECT count(*) FROM toolset_inventory WHERE key = 'mail' AND api_key IS NULL"))
		require.Equal(t, 3, changes())
	})
}

// Of several toolsets all are stored or none, and those that are not among them
// stay.
func TestStoreIsAllOrNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.store(mail())
		good, bad := mail(), mail()
		good.Key, bad.Key = "good", "bad"
		bad.Methods[1] = bad.Methods[0] // two of one name and version
		_, err := f.Store(t.Context(), []store.Spec{good, bad})
		require.ErrorContains(t, err, "toolset bad")
		f.missing(anna, "good")
		require.Equal(t, store.Report{Created: []string{"good"}}, f.store(good))
		require.Equal(t, store.Report{Unchanged: []string{"mail"}}, f.store(mail()))
	})
}

func TestProcessesStoreTheSameAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if _, err := f.Store(t.Context(), []store.Spec{mail()}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, 1, f.count("SELECT count(*) FROM toolset_inventory WHERE key = 'mail'"))
		require.Equal(t, 1, f.count("SELECT count(*) FROM toolsets WHERE key = 'mail'"))
		require.Equal(t, 2, f.count("SELECT count(*) FROM tool_methods WHERE inventory_key = 'mail'"))
	})
}

// Readers keep what they parsed until updated_at moves: it moves although the
// clock does not, and although it goes back.
func TestReadersSeeWhatIsStoredInTheSameMoment(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		for _, endpoint := range []string{"/send", "/v2/send", "/v3/send"} {
			spec := mail()
			spec.Methods[0].Endpoint = endpoint
			f.store(spec)
			f.now = f.now.Add(-time.Second)
			found, err := f.users.Identify(t.Context(), anna, "mail")
			require.NoError(t, err)
			m, _, err := f.users.Method(t.Context(), anna, found, "send")
			require.NoError(t, err)
			require.Equal(t, endpoint, m.Endpoint)
		}
	})
}

// What two users have installed of a toolset is each one's own; what the
// operator changes reaches both, and a toolset that is nobody's is left to those
// who installed it.
func TestUsersKeepWhatTheyInstalled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.store(mail())
		hers := f.install(anna, "mail")
		require.ElementsMatch(t, []string{"mail", "+mail"}, f.keys(anna))
		require.Equal(t, []string{"mail"}, f.keys(ben))
		require.Equal(t, "sk-of-u-anna", f.credential(anna, "mail", "send"))
		require.Equal(t, secret, f.credential(ben, "mail", "send"))
		f.install(ben, "mail")

		spec := mail()
		spec.Global = false
		spec.Methods = append(spec.Methods, toolset.Method{Name: "list", Version: 1, Endpoint: "/list", HTTPMethod: "GET", Request: json.RawMessage(`{}`), Response: json.RawMessage(`{}`)})
		f.store(spec)
		require.Equal(t, []string{"+mail"}, f.keys(anna))
		require.Equal(t, "sk-of-u-anna", f.credential(anna, "mail", "list"))
		require.Equal(t, "sk-of-u-ben", f.credential(ben, "mail", "list"))

		held, err := f.Holdings(t.Context(), "mail")
		require.NoError(t, err)
		require.Equal(t, store.Holdings{Installed: 2}, held)
		require.NoError(t, f.users.Installs.Uninstall(t.Context(), anna, hers))
		f.missing(anna, "mail")
		require.Empty(t, f.keys(anna))
		require.Equal(t, "sk-of-u-ben", f.credential(ben, "mail", "list"), "another user's stays")
		held, err = f.Holdings(t.Context(), "mail")
		require.NoError(t, err)
		require.Equal(t, store.Holdings{Installed: 1}, held)

		f.store(mail())
		require.Equal(t, secret, f.credential(anna, "mail", "send"), "everybody's again")
	})
}

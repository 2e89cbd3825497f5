package store_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/schema/shared"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/install"
	"github.com/portico-run/portico/modules/toolset/store"
)

const secret = "sk-operators-1234"

var anna, ben = actor.Actor{UID: "u-anna", Scope: actor.Full}, actor.Actor{UID: "u-ben", Scope: actor.Full}

// fixture is the store of one process, and what users see of it.
type fixture struct {
	*store.Service
	t     *testing.T
	db    *database.DB
	users *connectortest.Toolsets
	now   time.Time
}

func each(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		test(t, newFixture(t, db))
	})
}

func newFixture(t *testing.T, db *database.DB) *fixture {
	t.Helper()
	connectortest.Exec(t, db, "INSERT INTO users (uid, name) VALUES (?, 'a'), (?, 'b')", anna.UID, ben.UID)
	f := &fixture{t: t, db: db, users: connectortest.New(t, db, nil, nil), now: database.Now()}
	f.Service = f.service(f.users.Box)
	return f
}

// service is a store with an encryption key of its own.
func (f *fixture) service(box *secretbox.Box) *store.Service {
	return store.New(store.Deps{DB: f.db, Box: box, Connections: []store.Connections{f.users.Connector}, Now: func() time.Time { return f.now }})
}

func otherBox(t *testing.T) *secretbox.Box {
	t.Helper()
	box, err := secretbox.New(strings.Repeat("0b", 32))
	require.NoError(t, err)
	return box
}

// mail is a toolset of everybody with all that a spec can say, which users may
// also install for themselves.
func mail() store.Spec {
	return store.Spec{
		Key: "mail", Name: "Mail", Domain: "https://mail.example.com", Type: toolset.TypeRegular, AuthType: toolset.AuthConfigBased,
		Labels: map[string]string{"en": "Mail"}, Descriptions: map[string]string{"en": "Sends"}, Enabled: true, Global: true,
		Credential: &toolset.Credential{Type: toolset.Bearer, Value: secret}, Egress: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Prices:   json.RawMessage(`2`),
		Patterns: []install.Pattern{{Type: toolset.AuthCredentials, CredentialItems: []install.Item{{Key: "apiKey", InputMode: "text", Required: true}}}},
		Items:    []install.Item{{Key: "region", InputMode: "text"}}, Config: map[string]any{"region": "eu"},
		Schemas: shared.Schemas{"Letter": json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}}}`), "Text": json.RawMessage(`{"type":"string"}`)},
		Methods: []toolset.Method{
			{Name: "send", Version: 1, Description: "Sends", Endpoint: "/send", HTTPMethod: "POST", Request: json.RawMessage(`{"type":"object"}`), Response: json.RawMessage(`{}`)},
			{Name: "read", Version: 1, Endpoint: "/read", HTTPMethod: "GET", Request: json.RawMessage(`{"type":"object"}`), Response: json.RawMessage(`{}`)},
		},
	}
}

func (f *fixture) store(specs ...store.Spec) store.Report {
	f.t.Helper()
	r, err := f.Store(f.t.Context(), specs)
	require.NoError(f.t, err)
	return r
}

func (f *fixture) install(a actor.Actor, key string) string {
	f.t.Helper()
	made, err := f.users.Installs.Install(f.t.Context(), a, install.Upsert{
		Name: "own", Key: key, AuthType: toolset.AuthCredentials, AuthData: map[string]any{"apiKey": "sk-of-" + a.UID},
	})
	require.NoError(f.t, err)
	return made.ToolsetID
}

// credential is what a call of a user's carries.
func (f *fixture) credential(a actor.Actor, key, method string) string {
	f.t.Helper()
	found, err := f.users.Identify(f.t.Context(), a, key)
	require.NoError(f.t, err)
	_, c, err := f.users.Method(f.t.Context(), a, found, method)
	require.NoError(f.t, err)
	return c.Value.Reveal()
}

// missing requires that a key means nothing to a user.
func (f *fixture) missing(a actor.Actor, key string) {
	f.t.Helper()
	_, err := f.users.Identify(f.t.Context(), a, key)
	require.Equal(f.t, errs.ToolsetMissing, errs.CodeOf(err))
}

// keys are those of a user's list; own ones with a plus.
func (f *fixture) keys(a actor.Actor) []string {
	f.t.Helper()
	list, err := f.users.Installs.Toolsets(f.t.Context(), a)
	require.NoError(f.t, err)
	keys := []string{}
	for _, i := range list {
		if i.Global {
			keys = append(keys, i.Key)
		} else {
			keys = append(keys, "+"+i.Key)
		}
	}
	return keys
}

func (f *fixture) count(sql string, values ...any) (n int) {
	f.t.Helper()
	require.NoError(f.t, database.Unscoped(f.db.Read(f.t.Context())).Raw(sql, values...).Scan(&n).Error)
	return n
}

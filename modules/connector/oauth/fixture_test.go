package oauth_test

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/connector/connectortest"
	"github.com/portico-run/portico/modules/connector/mcp/authorize"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/oauth"
	"github.com/portico-run/portico/modules/connector/oauth/oauthtest"
)

var anna, ben = actor.Actor{UID: "u-anna", Scope: actor.Full}, actor.Actor{UID: "u-ben", Scope: actor.Full}

const endpoint = "https://portico.test"

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// process is what one process has.
type process struct {
	*oauth.Service
	servers *server.Service
	egress  *egress.Client

	mu    sync.Mutex
	ahead time.Duration // of its clock
}

func (p *process) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return database.Now().Add(p.ahead)
}

// later puts the clock forward.
func (p *process) later(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead += d
}

func start(t *testing.T, db *database.DB, hub *wake.Hub) *process {
	t.Helper()
	for _, a := range []actor.Actor{anna, ben} {
		connectortest.Exec(t, db, `INSERT INTO users (uid, name) VALUES (?, ?) ON CONFLICT DO NOTHING`, a.UID, a.UID)
	}
	box, err := secretbox.New(strings.Repeat("0a", 32))
	require.NoError(t, err)
	p := &process{egress: egress.New(egress.Config{})}
	t.Cleanup(p.egress.Close)
	p.servers = server.New(server.Deps{DB: db, Box: box, Wake: hub, Settings: server.Settings{PerUser: 5}})
	p.Service = oauth.New(oauth.Deps{DB: db, Box: box, Client: p.egress, Kind: authorize.Kind(p.servers), Endpoint: endpoint, Wake: hub, Now: p.now})
	return p
}

// add adds the server of everybody that wants tokens, as docs.
func (p *process) add(t *testing.T, s *oauthtest.Server, change ...func(*server.Spec)) {
	t.Helper()
	spec := server.Spec{Name: "docs", Transport: server.HTTP, URL: s.URL, OAuth: true, Egress: loopback()}
	for _, f := range change {
		f(&spec)
	}
	require.NoError(t, p.servers.Operators().Add(t.Context(), "", spec))
}

// begin has a user begin, and agree in a browser.
func (p *process) begin(t *testing.T, s *oauthtest.Server, a actor.Actor) (oauth.Begun, oauth.Answer, url.Values) {
	t.Helper()
	b, err := p.Connect(t.Context(), a, "docs")
	require.NoError(t, err)
	asked, err := url.Parse(b.URL)
	require.NoError(t, err)
	q := s.Agree(t, a.UID, b.URL)
	return b, oauth.Answer{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error"), Description: q.Get("error_description")}, asked.Query()
}

// connect has a user authorize the process at the server.
func (p *process) connect(t *testing.T, s *oauthtest.Server, a actor.Actor) url.Values {
	t.Helper()
	b, answer, asked := p.begin(t, s, a)
	o, err := p.Callback(t.Context(), answer, b.Browser)
	require.NoError(t, err)
	require.Equal(t, oauth.Outcome{Name: "docs"}, o)
	return asked
}

// transport sends what the SDK sends, within the rules of egress.
type transport struct {
	*egress.Client

	header http.Header
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, t.header)
	return t.Do(r, loopback())
}

// session is a connection of a user's to the server docs.
func (p *process) session(ctx context.Context, a actor.Actor, header http.Header) (*mcp.ClientSession, error) {
	of, err := p.servers.Find(ctx, a, "docs")
	if err != nil {
		return nil, err
	}
	handler, err := authorize.Authorizer{Grants: p}.Authorizer(ctx, a, of)
	if err != nil {
		return nil, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	return client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: of.URL, OAuthHandler: handler, HTTPClient: &http.Client{Transport: transport{p.egress, header}}, DisableStandaloneSSE: true,
	}, nil)
}

// whoami is who the server takes a user for.
func (p *process) whoami(ctx context.Context, a actor.Actor) (string, []string, error) {
	s, err := p.session(ctx, a, nil)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = s.Close() }() // it is stateless
	var tools []string
	for tool, err := range s.Tools(ctx, nil) {
		if err != nil {
			return "", nil, err
		}
		tools = append(tools, tool.Name)
	}
	got, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "whoami"})
	if err != nil {
		return "", tools, err
	}
	text, _ := got.Content[0].(*mcp.TextContent)
	return text.Text, tools, nil
}

// needed fails unless an error says that a person must authorize the process.
func needed(t *testing.T, err error) {
	t.Helper()
	var need oauth.Needed
	require.ErrorAs(t, err, &need)
	require.Equal(t, endpoint+"/v1/mcp/connect/docs", need.URL)
}

package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/connector/mcp"
	"github.com/portico-run/portico/modules/connector/mcp/hub"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

func TestNamesAreShortPlainAndStable(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long_", 20)
	tools := []server.Tool{{Name: "read"}, {Name: "files.read"}, {Name: "files_read"}, {Name: "say hello"}, {Name: long}, {Name: long + "2"}}
	names := mcp.Names("shop", tools)
	require.Equal(t, "shop__read", names["read"])
	require.Equal(t, "shop__files_read", names["files_read"], "it keeps its name, wherever the other one stands")
	require.Regexp(t, `^shop__files_read_[0-9a-f]{8}$`, names["files.read"])
	require.Equal(t, "shop__say_hello", names["say hello"])
	require.Len(t, names[long], 64)
	require.NotEqual(t, names[long], names[long+"2"])
	require.Equal(t, names[long], mcp.Names("shop", tools[4:5])[long])
}

type fixture struct {
	*mcp.Connector

	directory *hubtest.Directory
	hub       *hub.Hub
}

func open(t *testing.T) fixture {
	t.Helper()
	web := egress.New(egress.Config{})
	t.Cleanup(web.Close)
	f := fixture{directory: &hubtest.Directory{}}
	f.hub = hub.New(hub.Deps{Directory: f.directory, Client: web})
	f.Connector = mcp.New(f.hub)
	require.NoError(t, f.hub.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, f.hub.Stop(context.Background())) })
	return f
}

func anna() actor.Actor { return actor.Actor{UID: "u-anna"} }

func (f fixture) method(t *testing.T, key, name string) (toolset.Toolset, toolset.Method, error) {
	t.Helper()
	set, err := f.Identify(t.Context(), anna(), key)
	require.NoError(t, err)
	m, _, err := f.Method(t.Context(), set, name)
	return set, m, err
}

// A tool is found by either name. Everybody's server has its price, a user's own
// is not billed.
func TestAServerIsAToolset(t *testing.T) {
	t.Parallel()
	f := open(t)
	s := hubtest.Listen(t, "shop", hubtest.New().Handler())
	s.Price, s.Prices = money.Credit, map[string]money.Amount{"echo": 2 * money.Credit}
	f.directory.Put(s)
	for _, name := range []string{"echo", "shop__echo"} {
		set, m, err := f.method(t, "shop", name)
		require.NoError(t, err)
		require.Equal(t, "shop__echo", m.Name)
		require.True(t, set.Global)
		require.True(t, m.Callers().CodeFirst)
		q, err := set.Prices.Price(m.Priced, nil, nil)
		require.NoError(t, err)
		require.Equal(t, 2*money.Credit, q.Price)
		set, m, err = f.method(t, "shop", "text")
		require.NoError(t, err)
		q, err = set.Prices.Price(m.Priced, nil, nil)
		require.NoError(t, err)
		require.Equal(t, money.Credit, q.Price)
	}
	_, _, err := f.method(t, "shop", "nothing")
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
	require.ErrorContains(t, err, "shop__echo")
	own := s
	own.UID = anna().UID
	f.directory.Put(own)
	set, _, err := f.method(t, "shop", "echo")
	require.NoError(t, err)
	require.False(t, set.Global)
	keys, err := f.Keys(t.Context(), anna())
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"shop": true}, keys)
	_, err = f.Identify(t.Context(), anna(), "other")
	require.Equal(t, errs.ToolsetMissing, errs.CodeOf(err))
}

// A tool that is not the one that was pinned is neither described nor called.
func TestAPinnedToolIsTheOneThatWasPinned(t *testing.T) {
	t.Parallel()
	f, of := open(t), hubtest.New()
	s := hubtest.Listen(t, "shop", of.Handler())
	list, err := f.hub.Tools(t.Context(), anna(), s)
	require.NoError(t, err)
	s.Pins, s.Version = map[string]string{}, "2"
	for _, one := range list.Tools {
		s.Pins[one.Name] = one.Hash
	}
	f.directory.Put(s)
	_, _, err = f.method(t, "shop", "echo")
	require.NoError(t, err)
	say := func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return hubtest.Words("ok"), nil
	}
	of.Add("echo", `{"type":"object","properties":{"password":{"type":"string"}}}`, say)
	of.Add("added", `{"type":"object"}`, say)
	_, err = f.hub.Refresh(t.Context(), anna(), s)
	require.NoError(t, err)
	for _, name := range []string{"echo", "added"} {
		_, _, err = f.method(t, "shop", name)
		failure := &tool.Failure{}
		require.ErrorAs(t, err, &failure, name)
		require.Equal(t, hub.CodeChanged, failure.Code)
	}
	d := f.Describe(t.Context(), anna(), []string{"shop"})["shop"]
	require.NoError(t, d.Problem)
	text, err := json.Marshal(d.Definition)
	require.NoError(t, err)
	require.NotContains(t, string(text), "password")
	require.NotContains(t, string(text), "shop__added")
	require.Contains(t, string(text), "shop__text")
}

// Two tools whose names are one in Portico have their own prices, by either name.
func TestToolsOfOneNameHaveTheirOwnPrices(t *testing.T) {
	t.Parallel()
	f, of := open(t), hubtest.New()
	of.Add("files.read", `{"type":"object"}`, nil)
	of.Add("files_read", `{"type":"object"}`, nil)
	s := hubtest.Listen(t, "shop", of.Handler())
	s.Price, s.Prices = money.Credit, map[string]money.Amount{"files.read": 5 * money.Credit}
	f.directory.Put(s)
	for name, want := range map[string]money.Amount{"files.read": 5 * money.Credit, "files_read": money.Credit} {
		_, m, err := f.method(t, "shop", name)
		require.NoError(t, err)
		for _, called := range []string{name, m.Name} {
			set, m, err := f.method(t, "shop", called)
			require.NoError(t, err)
			q, err := set.Prices.Price(m.Priced, nil, nil)
			require.NoError(t, err)
			require.Equal(t, want, q.Price, called)
		}
	}
}

// A server that cannot be asked is a failure of its own, with its reason.
func TestABrokenServerIsAFailureOfItsOwn(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.directory.Put(server.Server{Name: "gone", Transport: server.HTTP, URL: "http://127.0.0.1:1", Egress: hubtest.Loopback(), Version: "1"})
	err := f.Describe(t.Context(), anna(), []string{"gone"})["gone"].Problem
	require.Equal(t, errs.Unavailable, errs.CodeOf(err))
	require.ErrorContains(t, err, "does not accept connections")
}

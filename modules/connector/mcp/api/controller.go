// Package api is what users do with MCP servers over HTTP.
package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// Inspector connects to servers: what they offer, and how they do.
type Inspector interface {
	// Tools returns what is known of a server's tools, or asks the server.
	Tools(ctx context.Context, a actor.Actor, s server.Server) (server.List, error)
	// Refresh asks the server again.
	Refresh(ctx context.Context, a actor.Actor, s server.Server) (server.List, error)
	Health(a actor.Actor, s server.Server) server.Health
}

// Module is the API for the servers of users.
type Module struct {
	service   *server.Service
	inspector Inspector
}

// New wires the API and starts nothing.
func New(s *server.Service, i Inspector) *Module { return &Module{s, i} }

const path = "/v1/mcp/servers"

// Register adds the module's operations to the API.
func (m *Module) Register(api *httpapi.API) {
	op := func(id, method, path, summary string, codes ...errs.Code) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: method, Path: path, Summary: summary, Tag: "mcp", Errors: codes}
	}
	httpapi.Register(api, op("list-mcp-servers", http.MethodGet, path, "The MCP servers that the caller may use, by name"), m.list)
	httpapi.Register(api, op("add-mcp-server", http.MethodPost, path, "Add an MCP server of the caller's own", errs.Conflict), m.add)
	one := path + "/{name}"
	httpapi.Register(api, op("show-mcp-server", http.MethodGet, one, "One MCP server, and how it does", errs.ToolsetMissing), m.show)
	httpapi.Register(api, op("change-mcp-server", http.MethodPatch, one, "Change an MCP server of the caller's own", errs.ToolsetMissing, errs.Conflict), m.change)
	httpapi.Register(api, op("replace-mcp-server", http.MethodPut, one, "Replace all settings of an MCP server of the caller's own", errs.ToolsetMissing, errs.Conflict), m.replace)
	httpapi.Register(api, op("delete-mcp-server", http.MethodDelete, one, "Delete an MCP server of the caller's own", errs.ToolsetMissing), m.remove)
	httpapi.Register(api, op("set-mcp-values", http.MethodPut, one+"/values", "Give the placeholders of an MCP server the caller's values", errs.ToolsetMissing), m.values)
	httpapi.Register(api, op("list-mcp-tools", http.MethodGet, one+"/tools", "The tools of an MCP server, as it describes them", errs.ToolsetMissing, errs.Unavailable), m.tools)
	httpapi.Register(api, op("test-mcp-server", http.MethodPost, one+"/test", "Connect to an MCP server and list its tools again", errs.ToolsetMissing), m.test)
}

// serverBody is a server as the API shows it.
type serverBody struct {
	Name      string                  `json:"name" doc:"Key of its toolset; its tools are name__tool"`
	Transport server.Transport        `json:"transport" enum:"http,stdio"`
	Origin    string                  `json:"origin,omitempty" example:"https://mcp.example.com" doc:"Where its URL is, without path and query"`
	Headers   []string                `json:"headers" example:"[\"Authorization\"]" nullable:"false" doc:"The names; values are never shown"`
	OAuth     bool                    `json:"oauth"`
	Global    bool                    `json:"isGlobal"`
	Enabled   bool                    `json:"enabled"`
	Values    []server.Value          `json:"values" nullable:"false" doc:"What each user gives a value of their own"`
	Price     money.Amount            `json:"price" doc:"Credits of a call"`
	Prices    map[string]money.Amount `json:"prices,omitempty" doc:"Those of single tools"`
	Pinned    bool                    `json:"pinned" doc:"Whether only the tools count that an operator has accepted"`
	Hides     string                  `json:"hides,omitempty" example:"toolset docs" doc:"What the caller does not reach because of the server's name"`
	State     server.State            `json:"state" enum:"idle,connecting,ready,auth_needed,degraded"`
	Reason    string                  `json:"reason,omitempty"`
	Connect   string                  `json:"connectUrl,omitempty" example:"https://portico.example.com/v1/mcp/connect/docs" doc:"Where a person authorizes this server"`
	CreatedAt time.Time               `json:"createdAt"`
	UpdatedAt time.Time               `json:"updatedAt"`
}

// body shows a server, and how it does for the caller.
func (m *Module) body(ctx context.Context, who actor.Actor, v server.View) serverBody {
	b := serverBody{
		Name: v.Name, Transport: v.Transport, Origin: v.Origin, Headers: v.Headers, OAuth: v.OAuth, Global: v.Owner == "", Enabled: v.Enabled,
		Values: v.Values, Price: v.Price, Prices: v.Prices, Pinned: v.Pinned, Hides: v.Hides, State: server.Idle, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
	}
	if e, ok := errors.AsType[*errs.Error](v.Problem); ok {
		b.State, b.Reason = server.Degraded, e.Message
		if e.Code == errs.Forbidden {
			b.State = server.AuthNeeded
		}
		return b
	}
	if s, err := m.service.Find(ctx, who, v.Name); err == nil && m.inspector != nil {
		h := m.inspector.Health(who, s)
		b.State, b.Reason, b.Connect = h.State, h.Reason, h.ConnectURL
	}
	return b
}

func (m *Module) list(ctx context.Context, who actor.Actor, _ *struct{}) ([]serverBody, error) {
	views, err := m.service.List(ctx, who)
	bodies := make([]serverBody, len(views))
	for i, v := range views {
		bodies[i] = m.body(ctx, who, v)
	}
	return bodies, err
}

type nameInput struct {
	Name string `path:"name" maxLength:"64" doc:"Name of the server"`
}

func (m *Module) show(ctx context.Context, who actor.Actor, in *nameInput) (serverBody, error) {
	return m.shown(ctx, who)(m.service.Show(ctx, who, in.Name))
}

func (m *Module) shown(ctx context.Context, who actor.Actor) func(v server.View, err error) (serverBody, error) {
	return func(v server.View, err error) (serverBody, error) {
		if err != nil {
			return serverBody{}, err
		}
		return m.body(ctx, who, v), nil
	}
}

type addInput struct {
	Body struct {
		Name    string            `json:"name" minLength:"1" maxLength:"32" example:"docs" documented:"pattern=^[a-z0-9]((_?[a-z0-9-])*_?[a-z0-9])?$" doc:"Lower-case letters, digits, - and _"`
		URL     string            `json:"url" minLength:"1" maxLength:"2048" doc:"Of a server that speaks streamable HTTP, with https"`
		Headers map[string]string `json:"headers,omitempty" doc:"Sent with every request, and never shown. {{NAME}} in a value stands for one that each user sets"`
		OAuth   bool              `json:"oauth,omitempty" doc:"Whether users authorize this server there"`
		Client  *clientBody       `json:"client,omitempty" doc:"The OAuth client that was registered by hand; without one, this server sees to it"`
		Scopes  []string          `json:"scopes,omitempty" maxItems:"50" nullable:"false" doc:"What is asked for; without any, what the server names"`
		Refresh int               `json:"refreshSeconds,omitempty" minimum:"0" maximum:"86400" doc:"After how long its tools are listed again"`
	}
}

type clientBody struct {
	ID     string `json:"id" minLength:"1" maxLength:"2048"`
	Secret string `json:"secret,omitempty" example:"s3cr3t" maxLength:"2048" doc:"Never shown"`
}

func (b *clientBody) client() server.Client {
	if b == nil {
		return server.Client{}
	}
	return server.Client(*b)
}

func (m *Module) add(ctx context.Context, who actor.Actor, in *addInput) (serverBody, error) {
	b := in.Body
	return m.shown(ctx, who)(m.service.Add(ctx, who, server.Spec{
		Name: b.Name, Transport: server.HTTP, URL: b.URL, Headers: b.Headers, OAuth: b.OAuth, Client: b.Client.client(), Scopes: b.Scopes,
		Refresh: time.Duration(b.Refresh) * time.Second,
	}))
}

type changeInput struct {
	Name string `path:"name" maxLength:"64" doc:"Name of the server"`
	Body struct {
		URL     *string            `json:"url,omitempty" maxLength:"2048"`
		Headers *map[string]string `json:"headers,omitempty" doc:"In place of all that are there"`
		OAuth   *bool              `json:"oauth,omitempty"`
		Client  *clientBody        `json:"client,omitempty"`
		Scopes  *[]string          `json:"scopes,omitempty" maxItems:"50"`
		Refresh *int               `json:"refreshSeconds,omitempty" minimum:"0" maximum:"86400"`
		Enabled *bool              `json:"enabled,omitempty"`
	}
}

func (m *Module) change(ctx context.Context, who actor.Actor, in *changeInput) (serverBody, error) {
	b := in.Body
	if b.URL == nil && b.Headers == nil && b.OAuth == nil && b.Client == nil && b.Scopes == nil && b.Refresh == nil && b.Enabled == nil {
		return serverBody{}, errs.New(errs.Invalid, "The request changes nothing.").Do("Send at least one member.")
	}
	p := server.Patch{URL: b.URL, Headers: b.Headers, OAuth: b.OAuth, Scopes: b.Scopes, Enabled: b.Enabled}
	if b.Client != nil {
		p.Client = new(b.Client.client())
	}
	if b.Refresh != nil {
		p.Refresh = new(time.Duration(*b.Refresh) * time.Second)
	}
	return m.shown(ctx, who)(m.service.Change(ctx, who, in.Name, p))
}

type replaceInput struct {
	Name string `path:"name" maxLength:"64" doc:"Name of the server"`
	Body struct {
		URL     string            `json:"url" minLength:"1" maxLength:"2048" doc:"Of a server that speaks streamable HTTP, with https"`
		Headers map[string]string `json:"headers,omitempty" doc:"In place of all that are there; without it, there are none"`
		OAuth   bool              `json:"oauth,omitempty" doc:"Whether users authorize this server there"`
		Client  *clientBody       `json:"client,omitempty" doc:"The OAuth client that was registered by hand; without one, this server sees to it"`
		Scopes  []string          `json:"scopes,omitempty" maxItems:"50" nullable:"false" doc:"What is asked for; without any, what the server names"`
		Refresh int               `json:"refreshSeconds,omitempty" minimum:"0" maximum:"86400" doc:"After how long its tools are listed again"`
		Enabled *bool             `json:"enabled,omitempty" doc:"true when left out"`
	}
}

// replace sets every setting that is the user's: what the request leaves out is as
// in a new server. Prices and networks that the operator opened stay.
func (m *Module) replace(ctx context.Context, who actor.Actor, in *replaceInput) (serverBody, error) {
	b := in.Body
	return m.shown(ctx, who)(m.service.Change(ctx, who, in.Name, server.Patch{
		URL: &b.URL, Headers: &b.Headers, OAuth: &b.OAuth, Client: new(b.Client.client()), Scopes: &b.Scopes,
		Refresh: new(time.Duration(b.Refresh) * time.Second), Enabled: new(b.Enabled == nil || *b.Enabled),
	}))
}

func (m *Module) remove(ctx context.Context, who actor.Actor, in *nameInput) (*httpapi.None, error) {
	return nil, m.service.Remove(ctx, who, in.Name)
}

type valuesInput struct {
	Name string `path:"name" maxLength:"64" doc:"Name of the server"`
	Body struct {
		Values map[string]*string `json:"values" doc:"By name; null forgets one, those that are not named stay"`
	}
}

func (m *Module) values(ctx context.Context, who actor.Actor, in *valuesInput) (serverBody, error) {
	return m.shown(ctx, who)(m.service.SetValues(ctx, who, in.Name, in.Body.Values))
}

type toolsBody struct {
	Tools    []server.Tool     `json:"tools" nullable:"false"`
	Protocol string            `json:"protocol,omitempty" example:"2026-07-28" doc:"The revision that was agreed upon"`
	Listed   time.Time         `json:"listed"`
	Left     map[string]string `json:"left,omitempty" doc:"Tools that are left out, and why"`
}

func toTools(l server.List) toolsBody {
	return toolsBody{Tools: append([]server.Tool{}, l.Tools...), Protocol: l.Protocol, Listed: l.Listed, Left: l.Left}
}

func (m *Module) tools(ctx context.Context, who actor.Actor, in *nameInput) (toolsBody, error) {
	s, err := m.service.Find(ctx, who, in.Name)
	if err != nil {
		return toolsBody{}, err
	}
	l, err := m.inspector.Tools(ctx, who, s)
	if f, ok := errors.AsType[*upstream.Failure](err); ok {
		return toolsBody{}, errs.New(errs.Unavailable, f.Message).Do("POST /v1/mcp/servers/" + in.Name + "/test tries again at once.").With(err)
	}
	return toTools(l), err
}

type testBody struct {
	OK       bool              `json:"ok"`
	State    server.State      `json:"state" enum:"idle,connecting,ready,auth_needed,degraded"`
	Reason   string            `json:"reason,omitempty"`
	Connect  string            `json:"connectUrl,omitempty" example:"https://portico.example.com/v1/mcp/connect/docs" doc:"Where a person authorizes this server"`
	Tools    []string          `json:"tools" example:"[\"search\"]" nullable:"false" doc:"The names that the server uses"`
	Protocol string            `json:"protocol,omitempty" example:"2026-07-28"`
	Left     map[string]string `json:"left,omitempty" doc:"Tools that are left out, and why"`
}

// test is no error where the server is: that is what was asked.
func (m *Module) test(ctx context.Context, who actor.Actor, in *nameInput) (testBody, error) {
	s, err := m.service.Find(ctx, who, in.Name)
	if err != nil {
		return testBody{}, err
	}
	l, err := m.inspector.Refresh(ctx, who, s)
	f, failed := errors.AsType[*upstream.Failure](err)
	if err != nil && !failed {
		return testBody{}, err
	}
	h := m.inspector.Health(who, s)
	b := testBody{OK: !failed, State: h.State, Reason: h.Reason, Connect: h.ConnectURL, Tools: []string{}, Protocol: l.Protocol, Left: l.Left}
	if failed {
		b.Reason = f.Message
		return b, nil
	}
	for _, t := range l.Tools {
		b.Tools = append(b.Tools, t.Name)
	}
	return b, nil
}

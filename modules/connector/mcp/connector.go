// Package mcp is the kind of toolsets that are MCP servers: a server's name is the
// key of its toolset.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/connector/mcp/hub"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/approval"
	"github.com/portico-run/portico/modules/toolset"
)

// Connector implements toolset.Servers and tool.Executor.
type Connector struct{ hub *hub.Hub }

// New returns a connector.
func New(h *hub.Hub) *Connector { return &Connector{h} }

// found is what a toolset of this kind holds for its own methods.
type found struct {
	actor  actor.Actor
	server server.Server
}

// Identify implements toolset.Servers. It asks no other service: what the server
// offers is asked where a tool is looked for.
func (c *Connector) Identify(ctx context.Context, a actor.Actor, key string) (toolset.Toolset, error) {
	s, err := c.hub.Server(ctx, a, key)
	if err != nil {
		return toolset.Toolset{}, err
	}
	return toolset.Toolset{
		Key: key, Name: s.Name, Kind: toolset.MCP, Global: s.UID == "", Egress: s.Egress, Prices: price.Flat(s.Price, s.Prices), Found: found{actor: a, server: s},
	}, nil
}

// Keys implements toolset.Servers.
func (c *Connector) Keys(ctx context.Context, a actor.Actor) (map[string]bool, error) {
	all, err := c.hub.Servers(ctx, a)
	if err != nil {
		return nil, err
	}
	keys := map[string]bool{}
	for _, s := range all {
		keys[s.Name] = keys[s.Name] || s.UID != ""
	}
	return keys, nil
}

// atOnce is how many servers are asked at a time.
const atOnce = 16

// Describe implements toolset.Servers. All are asked at once: one that is slow
// does not add to the others.
func (c *Connector) Describe(ctx context.Context, a actor.Actor, keys []string) map[string]toolset.Described {
	out := map[string]toolset.Described{}
	var mu sync.Mutex
	var work errgroup.Group
	work.SetLimit(atOnce)
	for _, key := range keys {
		work.Go(func() error {
			d, err := c.define(ctx, a, key)
			mu.Lock()
			defer mu.Unlock()
			out[key] = toolset.Described{Definition: d, Problem: err}
			return nil
		})
	}
	_ = work.Wait() // what went wrong is in out
	return out
}

// define describes the tools of a server. A tool that is not the one that was pinned
// is not described: the words of a server are an influence on models, too.
func (c *Connector) define(ctx context.Context, a actor.Actor, key string) (toolset.Definition, error) {
	s, err := c.hub.Server(ctx, a, key)
	if err != nil {
		return toolset.Definition{}, err
	}
	list, err := c.hub.Tools(ctx, a, s)
	if err != nil {
		return toolset.Definition{}, hub.Unusable(key, err)
	}
	d := toolset.Definition{Key: key, Name: s.Name, Description: "Tools of the MCP server " + s.Name + ".", Tools: []toolset.ToolDefinition{}, Server: true}
	names := Names(s.Name, list.Tools)
	for _, t := range list.Tools {
		if pinned(s, t) != nil {
			continue
		}
		d.Tools = append(d.Tools, method(names[t.Name], t).Definition())
	}
	return d, nil
}

// Method implements toolset.Servers. A tool is found by its name in Portico, or
// by the one that its server uses.
func (c *Connector) Method(ctx context.Context, t toolset.Toolset, name string) (toolset.Method, toolset.Credential, error) {
	f, ok := t.Found.(found)
	if !ok {
		return toolset.Method{}, toolset.Credential{}, errors.New("the toolset is not one of an MCP server")
	}
	list, err := c.hub.Tools(ctx, f.actor, f.server)
	if err != nil {
		return toolset.Method{}, toolset.Credential{}, err
	}
	names := Names(f.server.Name, list.Tools)
	i := slices.IndexFunc(list.Tools, func(one server.Tool) bool { return names[one.Name] == name })
	if i < 0 {
		i = slices.IndexFunc(list.Tools, func(one server.Tool) bool { return one.Name == name })
	}
	if i < 0 {
		all := make([]string, len(list.Tools))
		for i, one := range list.Tools {
			all[i] = names[one.Name]
		}
		return toolset.Method{}, toolset.Credential{}, toolset.NoMethod(t.Key, name, strings.Join(all, ", "))
	}
	if err := pinned(f.server, list.Tools[i]); err != nil {
		return toolset.Method{}, toolset.Credential{}, err
	}
	return method(names[list.Tools[i].Name], list.Tools[i]), toolset.Credential{}, nil
}

// Hints are what a server claims of one of its tools; false where nothing is
// known of it, and for toolsets that are no servers.
func (c *Connector) Hints(ctx context.Context, a actor.Actor, key, name string) (server.Hints, bool, error) {
	s, err := c.hub.Server(ctx, a, key)
	if errs.CodeOf(err) == errs.ToolsetMissing {
		return server.Hints{}, false, nil
	}
	if err != nil {
		return server.Hints{}, false, err
	}
	list, err := c.hub.Tools(ctx, a, s)
	if err != nil {
		return server.Hints{}, false, err
	}
	names := Names(s.Name, list.Tools)
	for _, t := range list.Tools {
		if t.Name == name || names[t.Name] == name {
			return t.Hints, true, nil
		}
	}
	return server.Hints{}, false, nil
}

// method is a tool as Portico calls it. Its endpoint is the name that its server
// uses, and so do prices: two tools may have one name in Portico but for a hash.
func method(name string, t server.Tool) toolset.Method {
	description := t.Description
	if description == "" {
		description = t.Title
	}
	m := toolset.Method{Name: name, Description: description, Endpoint: t.Name, Priced: t.Name, Request: t.Input, Response: t.Output}
	if t.Hints.ReadOnly != nil && *t.Hints.ReadOnly {
		m.Effect = toolset.EffectRead
	}
	return m
}

// pinned refuses a tool that is not the one that was pinned.
func pinned(s server.Server, t server.Tool) error {
	if s.Pins == nil {
		return nil
	}
	switch hash, ok := s.Pins[t.Name]; {
	case !ok:
		return &tool.Failure{Code: hub.CodeChanged, Message: fmt.Sprintf("Tool %s of MCP server %s is not among those that were pinned. An administrator looks at it and pins the server again.", t.Name, s.Name)}
	case hash != t.Hash:
		return &tool.Failure{Code: hub.CodeChanged, Message: fmt.Sprintf("Tool %s of MCP server %s is not what it was when it was pinned. An administrator looks at it and pins the server again.", t.Name, s.Name)}
	}
	return nil
}

// Execute implements tool.Executor.
func (c *Connector) Execute(ctx context.Context, in tool.Invocation) (tool.Outcome, error) {
	f, ok := in.Toolset.Found.(found)
	if !ok {
		return tool.Outcome{}, errors.New("the toolset is not one of an MCP server")
	}
	arguments, err := json.Marshal(in.Arguments)
	if err != nil {
		return tool.Outcome{}, err
	}
	got, err := c.hub.Call(ctx, f.actor, f.server, hub.Call{Tool: in.Method.Endpoint, Arguments: arguments, Report: in.Report, Ask: asking(in)})
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return tool.Outcome{Failure: failure}, nil
	}
	if err != nil {
		return tool.Outcome{}, err
	}
	return tool.Outcome{Data: got.Data, Files: got.Files, WithFiles: shape(got)}, nil
}

// asking asks people what the server asks in the middle of a call; nil where nobody can
// be asked.
func asking(in tool.Invocation) func(ctx context.Context, q hub.Question) (hub.Reply, error) {
	if in.Ask == nil {
		return nil
	}
	return func(ctx context.Context, q hub.Question) (hub.Reply, error) {
		got, err := in.Ask(ctx, approval.Asked{From: "MCP server " + q.Server, Message: q.Message, Schema: q.Schema, URL: q.URL})
		if err != nil {
			return hub.Reply{}, err
		}
		switch got.State {
		case approval.Allowed:
			return hub.Reply{Action: hub.Accept, Content: got.Content}, nil
		case approval.Refused:
			return hub.Reply{Action: hub.Decline}, nil
		}
		return hub.Reply{Action: hub.Cancel}, nil
	}
}

// shape says what a program gets of an answer with files: the file or the files
// where there is nothing else, an object of both where there are words. What the
// tool's output schema describes stays as it is; its files are in the record.
func shape(got hub.Answer) func(files []any) (json.RawMessage, error) {
	return func(files []any) (json.RawMessage, error) {
		switch {
		case got.Structured:
			return got.Data, nil
		case len(got.Data) > 0:
			return json.Marshal(struct {
				Text  json.RawMessage `json:"text"`
				Files []any           `json:"files"`
			}{got.Data, files})
		case len(files) == 1:
			return json.Marshal(files[0])
		}
		return json.Marshal(files)
	}
}

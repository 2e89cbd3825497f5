package toolset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/ptc"
)

// InventoryItem is a toolset as it is offered to everybody.
type InventoryItem struct {
	Key, Name, Type, Domain string
	Builtin                 bool
	Labels, Descriptions    map[string]string
	Patterns                []Pattern
	Items                   []Item
	methods                 []Method
}

// Methods are the tools of the toolset, by name; those of a provider are not
// known here.
func (i InventoryItem) Methods() []Method { return i.methods }

// Inventory describes every toolset that this server offers, by key. One whose
// row cannot be read is left out and logged.
func (s *Service) Inventory(ctx context.Context) ([]InventoryItem, error) {
	h := s.DB.Read(ctx)
	rows, err := s.rows.inventories(h)
	if err != nil {
		return nil, err
	}
	items := []InventoryItem{}
	for _, key := range ptc.Builtins() {
		items = append(items, InventoryItem{Key: key, Name: key, Type: "builtin", Builtin: true})
	}
	for _, r := range rows {
		if r.Type != TypeRegular && !s.Provider.Connected() {
			continue
		}
		item, err := s.describe(h, r)
		if _, ok := errors.AsType[unreadable](err); ok {
			s.report(ctx, err) // the others can be used
			continue
		}
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b InventoryItem) int { return cmp.Compare(a.Key, b.Key) })
	return items, nil
}

func (s *Service) describe(h database.Handle, r inventoryRow) (InventoryItem, error) {
	item := InventoryItem{Key: r.Key, Name: r.Name, Type: r.Type, Domain: deref(r.Domain), Labels: texts(r.LabelDict), Descriptions: texts(r.DescriptionDict)}
	form, err := s.formOf(r)
	if err != nil {
		return item, err
	}
	item.Patterns, item.Items = form.patterns, form.items
	l, coded := s.legacy[r.Key]
	switch {
	case r.Type != TypeRegular:
		return item, nil
	case coded:
		item.methods = l.methods
		return item, nil
	}
	p, err := s.parse(h, r)
	item.methods = p.methods
	return item, err
}

// Instance is a toolset as it is listed to a user. It never holds a credential.
type Instance struct {
	ToolsetID, Name, Key, AuthType string
	Global, Enabled                bool
	Config                         json.RawMessage // of the user's own; nil for none
	CreatedAt, UpdatedAt           time.Time
}

// Toolsets lists what the caller may use: the caller's own and everybody's.
func (s *Service) Toolsets(ctx context.Context, a actor.Actor) ([]Instance, error) {
	rows, err := s.rows.installed(s.DB.Read(ctx), a.UID)
	instances := make([]Instance, len(rows))
	for i, r := range rows {
		instances[i] = instanceOf(r)
	}
	return instances, err
}

// Tools are all that a user has and may have: the builtin tools, the toolsets,
// those whose account is connected, and MCP servers; and what needs an account
// that is not.
type Tools struct {
	Builtin      []string
	Regular      []Instance
	OAuth        []Instance
	MCP          []Server
	Unauthorized []InventoryItem
	Definitions  map[string]InventoryItem
}

// Server is an MCP server of a user's as lists show it. What may hold a
// credential is left out: headers, variables, arguments, and all of the address
// but where it is.
type Server struct {
	Name      string    `json:"name"`
	Type      string    `json:"type" doc:"Its transport: sse, streamable, stdio, …"`
	URL       string    `json:"url,omitempty" doc:"Without user, query and fragment"`
	Global    bool      `json:"isGlobal"`
	Enabled   bool      `json:"enabled"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

func serverOf(r serverRow) Server {
	s := Server{Name: r.Name, Type: r.Type, Global: r.IsGlobal, Enabled: r.Enabled, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC()}
	if u, err := url.Parse(deref(r.URL)); err == nil && u.Host != "" {
		s.URL = (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	}
	return s
}

// Tools lists them for the actor.
func (s *Service) Tools(ctx context.Context, a actor.Actor) (Tools, error) {
	h := s.DB.Read(ctx)
	t := Tools{Builtin: ptc.Builtins(), Definitions: map[string]InventoryItem{}}
	inventory, err := s.Inventory(ctx)
	if err != nil {
		return t, err
	}
	rows, err := s.rows.installed(h, a.UID)
	if err != nil {
		return t, err
	}
	accounts, err := s.rows.connections(h, a.UID)
	if err != nil {
		return t, err
	}
	servers, err := s.rows.servers(h, a.UID)
	if err != nil {
		return t, err
	}
	for _, r := range servers {
		t.MCP = append(t.MCP, serverOf(r))
	}
	for _, r := range rows {
		switch {
		case deref(r.AuthType) != AuthOAuth && deref(r.AuthType) != AuthExternalKey:
			t.Regular = append(t.Regular, instanceOf(r))
		case !s.Provider.Connected():
		case deref(r.AuthType) == AuthExternalKey:
			t.Regular = append(t.Regular, instanceOf(r))
		case slices.Contains(accounts, r.Key):
			t.OAuth = append(t.OAuth, instanceOf(r))
		}
	}
	for _, item := range inventory {
		t.Definitions[item.Key] = item
		if item.Type == TypeOAuth && !slices.Contains(accounts, item.Key) {
			t.Unauthorized = append(t.Unauthorized, item)
		}
	}
	return t, nil
}

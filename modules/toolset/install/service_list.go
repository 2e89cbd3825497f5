package install

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Lister is a toolset.Source that knows its tools without asking another
// service: the inventory lists them.
type Lister interface {
	List(ctx context.Context, e toolset.Entry) ([]toolset.Method, error)
}

// InventoryItem is a toolset as it is offered to everybody.
type InventoryItem struct {
	Key, Name, Type, Domain string
	Builtin                 bool
	Labels, Descriptions    map[string]string
	Patterns                []Pattern
	Items                   []Item
	methods                 []toolset.Method
	kind                    toolset.Traits
}

// Methods are the tools of the toolset, by name; those of a provider are not
// known here.
func (i InventoryItem) Methods() []toolset.Method { return i.methods }

// Inventory describes every toolset that this server offers, by key. One whose
// row cannot be read is left out and logged.
func (s *Service) Inventory(ctx context.Context) ([]InventoryItem, error) {
	offered, err := s.rows.Inventories(s.db.Read(ctx))
	if err != nil {
		return nil, err
	}
	items := []InventoryItem{}
	for _, key := range ptc.Builtins() {
		items = append(items, InventoryItem{Key: key, Name: key, Type: "builtin", Builtin: true})
	}
	for _, r := range offered {
		source, ok := s.kinds.Offered(r.Type, r.Key)
		if !ok || source.Off {
			continue
		}
		item, err := s.describe(ctx, r, source)
		if s.toolsets.Report(ctx, err) {
			continue // the others can be used
		}
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b InventoryItem) int { return cmp.Compare(a.Key, b.Key) })
	return items, nil
}

func (s *Service) describe(ctx context.Context, r rows.Inventory, source toolset.Registered) (InventoryItem, error) {
	item := InventoryItem{
		Key: r.Key, Name: r.Name, Type: r.Type, Domain: database.Text(r.Domain), Labels: toolset.Texts(r.LabelDict), Descriptions: toolset.Texts(r.DescriptionDict),
		kind: source.Traits,
	}
	form, err := s.formOf(r)
	if err != nil {
		return item, err
	}
	item.Patterns, item.Items = form.Patterns, form.Items
	if lister, ok := source.Source.(Lister); ok {
		item.methods, err = lister.List(ctx, s.toolsets.Offer(r, source.Kind))
	}
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
	installed, err := s.rows.Installed(s.db.Read(ctx), a.UID)
	instances := make([]Instance, len(installed))
	for i, r := range installed {
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

func serverOf(r rows.Server) Server {
	s := Server{Name: r.Name, Type: r.Type, Global: r.IsGlobal, Enabled: r.Enabled, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC()}
	if u, err := url.Parse(database.Text(r.URL)); err == nil && u.Host != "" {
		s.URL = (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	}
	return s
}

// Tools lists them for the actor.
func (s *Service) Tools(ctx context.Context, a actor.Actor) (Tools, error) {
	h := s.db.Read(ctx)
	t := Tools{Builtin: ptc.Builtins(), Definitions: map[string]InventoryItem{}}
	inventory, err := s.Inventory(ctx)
	if err != nil {
		return t, err
	}
	installed, err := s.rows.Installed(h, a.UID)
	if err != nil {
		return t, err
	}
	accounts := accountsOf{uid: a.UID, lists: map[toolset.Kind][]string{}}
	servers, err := s.rows.Servers(h, a.UID)
	if err != nil {
		return t, err
	}
	for _, r := range servers {
		t.MCP = append(t.MCP, serverOf(r))
	}
	for _, r := range installed {
		source, ok := s.kinds.Installed(database.Text(r.AuthType), r.Key)
		if !ok || source.Off {
			continue
		}
		switch has, err := accounts.has(ctx, source.Traits, r.Key); {
		case err != nil:
			return t, err
		case source.Accounts == nil:
			t.Regular = append(t.Regular, instanceOf(r))
		case has:
			t.OAuth = append(t.OAuth, instanceOf(r))
		}
	}
	for _, item := range inventory {
		t.Definitions[item.Key] = item
		has, err := accounts.has(ctx, item.kind, item.Key)
		if err != nil {
			return t, err
		}
		if item.kind.Accounts != nil && !has {
			t.Unauthorized = append(t.Unauthorized, item)
		}
	}
	return t, nil
}

// accountsOf are the toolsets that a user has connected an account for, by
// their kind. Each list is read once.
type accountsOf struct {
	uid   string
	lists map[toolset.Kind][]string
}

func (a accountsOf) has(ctx context.Context, kind toolset.Traits, key string) (bool, error) {
	if kind.Accounts == nil {
		return false, nil
	}
	if _, read := a.lists[kind.Kind]; !read {
		keys, err := kind.Accounts.Connected(ctx, a.uid)
		if err != nil {
			return false, err
		}
		a.lists[kind.Kind] = keys
	}
	return slices.Contains(a.lists[kind.Kind], key), nil
}

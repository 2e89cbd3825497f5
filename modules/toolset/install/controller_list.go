package install

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/toolset"
)

func (c controller) registerLists(api *httpapi.API) {
	op := func(id, path, summary string) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: http.MethodGet, Path: path, Summary: summary, Tag: "toolsets"}
	}
	httpapi.Register(api, op("list-tools", "/v1/tool/list", "All that the caller may use: builtin tools, toolsets, connected accounts, MCP servers"), c.tools)
	httpapi.Register(api, op("list-user-tools", "/v1/tool/user/list", "The toolsets the caller has, and those that need the caller's account"), c.userTools)
	httpapi.Register(api, op("list-toolsets", "/v1/tool/toolset/list", "The toolsets the caller may use"), c.list)
	httpapi.Register(api, op("list-inventory", "/v1/tool/inventory/list", "The toolsets this server offers, and what is given to install one"), c.inventory)
}

type listInput struct {
	IsGlobal string `query:"isGlobal" enum:"true,false" doc:"Only everybody's, or only the caller's own"`
}

func (c controller) list(ctx context.Context, who actor.Actor, in *listInput) ([]instanceBody, error) {
	instances, err := c.service.Toolsets(ctx, who)
	bodies := []instanceBody{}
	for _, i := range instances {
		if matches(in.IsGlobal, i.Global) {
			bodies = append(bodies, toInstance(i))
		}
	}
	return bodies, err
}

// matches reports whether a value passes a filter of true, false or nothing.
func matches(filter string, value bool) bool { return filter == "" || (filter == "true") == value }

type instanceBody struct {
	ToolsetID  string          `json:"toolsetId"`
	Name       string          `json:"name"`
	Key        string          `json:"key"`
	AuthType   string          `json:"authType" doc:"config_based where nobody gives a credential"`
	Global     bool            `json:"isGlobal"`
	Enabled    bool            `json:"enabled"`
	Config     json.RawMessage `json:"config,omitempty"`
	Definition *inventoryBody  `json:"definition,omitempty"`
	CreatedAt  *time.Time      `json:"createdAt,omitempty" doc:"Absent for what is no row: builtin tools, and what is not connected yet"`
	UpdatedAt  *time.Time      `json:"updatedAt,omitempty"`
}

func toInstance(i Instance) instanceBody {
	return instanceBody{
		ToolsetID: i.ToolsetID, Name: i.Name, Key: i.Key, AuthType: cmp.Or(i.AuthType, toolset.AuthConfigBased), Global: i.Global, Enabled: i.Enabled, Config: i.Config,
		CreatedAt: &i.CreatedAt, UpdatedAt: &i.UpdatedAt,
	}
}

func (c controller) inventory(ctx context.Context, _ actor.Actor, _ *struct{}) ([]inventoryBody, error) {
	items, err := c.service.Inventory(ctx)
	bodies := make([]inventoryBody, len(items))
	for i, item := range items {
		bodies[i] = toInventory(item)
	}
	return bodies, err
}

type inventoryBody struct {
	Key             string            `json:"key"`
	Type            string            `json:"type"`
	Builtin         bool              `json:"builtin,omitempty"`
	Domain          string            `json:"domain,omitempty"`
	LabelDict       map[string]string `json:"labelDict"`
	DescriptionDict map[string]string `json:"descriptionDict"`
	Tools           []inventoryTool   `json:"tools" nullable:"false" doc:"Empty where a provider lists them"`
	RequiresAuth    bool              `json:"requiresAuth"`
	AuthPatterns    []Pattern         `json:"authPatterns,omitempty" nullable:"false"`
	ConfigItems     []Item            `json:"configItems,omitempty" nullable:"false"`
}

type inventoryTool struct {
	Name            string            `json:"name"`
	DescriptionDict map[string]string `json:"descriptionDict"`
	AllowedCallers  []string          `json:"allowedCallers,omitempty" enum:"direct,code" doc:"Who may call it, where its name or its file says so: a model by a tool call, or code"`
}

func toInventory(item InventoryItem) inventoryBody {
	b := inventoryBody{
		Key: item.Key, Type: item.Type, Builtin: item.Builtin, Domain: item.Domain, LabelDict: item.Labels, DescriptionDict: item.Descriptions,
		Tools: []inventoryTool{}, RequiresAuth: len(item.Patterns) > 0, AuthPatterns: item.Patterns, ConfigItems: item.Items,
	}
	if b.LabelDict == nil {
		b.LabelDict, b.DescriptionDict = map[string]string{"en": item.Name}, map[string]string{}
	}
	for _, m := range item.Methods() {
		b.Tools = append(b.Tools, inventoryTool{
			Name: m.Name, DescriptionDict: map[string]string{"en": m.Description}, AllowedCallers: m.Callers().Names(),
		})
	}
	return b
}

// genericBody is one thing that a run can use.
type genericBody struct {
	Type    string        `json:"type" enum:"regular,mcp,external_oauth"`
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Builtin bool          `json:"builtin,omitempty"`
	Toolset *instanceBody `json:"toolset,omitempty"`
	Server  *Server       `json:"mcpServer,omitempty"`
}

type toolsInput struct {
	IsGlobal            string `query:"isGlobal" enum:"true,false" doc:"Only everybody's, or only the caller's own"`
	Enabled             string `query:"enabled" enum:"true,false" doc:"Only what is switched on, or off"`
	IncludeUnauthorized string `query:"includeUnauthorized" enum:"true,false" doc:"What is switched on, then what needs an account that is not connected; the other filters are ignored"`
}

func (c controller) tools(ctx context.Context, who actor.Actor, in *toolsInput) ([]genericBody, error) {
	t, err := c.service.Tools(ctx, who)
	if err != nil {
		return nil, err
	}
	all := in.IncludeUnauthorized == "true"
	if all {
		in.IsGlobal, in.Enabled = "", "true"
	}
	bodies := []genericBody{}
	for _, name := range t.Builtin {
		if in.IsGlobal != "false" && in.Enabled != "false" {
			bodies = append(bodies, genericBody{
				Type: "regular", ID: name, Name: name, Builtin: true, Toolset: &instanceBody{ToolsetID: "builtin", Key: name, Name: name, AuthType: toolset.AuthConfigBased, Enabled: true, Global: true, Definition: t.definition(name)},
			})
		}
	}
	for kind, list := range [][]Instance{t.Regular, t.OAuth} {
		for _, i := range list {
			if matches(in.IsGlobal, i.Global) && matches(in.Enabled, i.Enabled) {
				bodies = append(bodies, t.generic([]string{"regular", "external_oauth"}[kind], i))
			}
		}
	}
	for _, server := range t.MCP {
		if matches(in.IsGlobal, server.Global) && in.Enabled != "false" {
			bodies = append(bodies, genericBody{Type: "mcp", ID: server.Name, Name: server.Name, Server: &server})
		}
	}
	for _, item := range t.Unauthorized {
		if all {
			bodies = append(bodies, genericBody{
				Type: "external_oauth", ID: item.Key, Name: item.Name, Toolset: &instanceBody{ToolsetID: item.Key, Key: item.Key, Name: item.Name, AuthType: item.kind.AuthType, Definition: t.definition(item.Key)},
			})
		}
	}
	return bodies, nil
}

func (t Tools) generic(kind string, i Instance) genericBody {
	body := toInstance(i)
	body.Definition = t.definition(i.Key)
	return genericBody{Type: kind, ID: i.ToolsetID, Name: i.Name, Toolset: &body}
}

// definition is what the inventory says of a key; nil where it says nothing.
func (t Tools) definition(key string) *inventoryBody {
	item, ok := t.Definitions[key]
	if !ok {
		return nil
	}
	body := toInventory(item)
	return &body
}

// userToolBody is a toolset of the caller's, or one that needs an account.
type userToolBody struct {
	ToolsetID   string         `json:"toolsetId"`
	Key         string         `json:"key"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Authorized  bool           `json:"authorized"`
	Domain      string         `json:"domain,omitempty"`
	Toolset     *genericBody   `json:"toolset,omitempty"`
	Definition  *inventoryBody `json:"definition,omitempty"`
}

func (c controller) userTools(ctx context.Context, who actor.Actor, _ *struct{}) ([]userToolBody, error) {
	t, err := c.service.Tools(ctx, who)
	bodies := []userToolBody{}
	for kind, list := range [][]Instance{t.Regular, t.OAuth} {
		for _, i := range list {
			if !i.Enabled {
				continue
			}
			generic := t.generic([]string{"regular", "external_oauth"}[kind], i)
			item := t.Definitions[i.Key]
			bodies = append(bodies, userToolBody{
				ToolsetID: i.ToolsetID, Key: i.Key, Name: i.Name, Description: item.Descriptions["en"], Authorized: true, Domain: item.Domain, Toolset: &generic,
			})
		}
	}
	for _, item := range t.Unauthorized {
		bodies = append(bodies, userToolBody{
			ToolsetID: item.Key, Key: item.Key, Name: item.Name, Description: item.Descriptions["en"], Domain: item.Domain, Definition: t.definition(item.Key),
		})
	}
	return bodies, err
}

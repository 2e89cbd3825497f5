package toolset

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portico-run/portico/modules/internal/actor"
	"github.com/portico-run/portico/modules/internal/errs"
	"github.com/portico-run/portico/modules/internal/httpapi"
)

type controller struct{ service *Service }

func (c controller) register(api *httpapi.API) {
	op := func(id, path, summary string, codes ...errs.Code) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: http.MethodGet, Path: path, Summary: summary, Tag: "toolsets", Errors: codes}
	}
	export := op("export-definitions", "/v1/tool/toolset/exportDefinitions",
		"JSON Schemas of the caller's toolsets, for the generation of code", errs.ToolsetMissing)
	export.Description = "Without keys: every toolset that code can be generated for, and can be described now. One bad key fails the request, unless partial=true."
	httpapi.Register(api, export, c.export)
	httpapi.Register(api, op("list-toolsets", "/v1/tool/toolset/list", "The toolsets the caller may use"), c.list)
	c.registerConnections(api)
	httpapi.Register(api, op("list-inventory", "/v1/tool/inventory/list", "The toolsets this server offers"), c.inventory)
}

type exportInput struct {
	ToolsetKeys string `query:"toolsetKeys" maxLength:"8192" doc:"Keys, separated by commas"`
	ToolsetKey  string `query:"toolsetKey" maxLength:"8192" doc:"The same under its other name"`
	Partial     bool   `query:"partial" doc:"Answer {toolsets, errors} instead of failing for one bad key"`
}

func (in *exportInput) keys() ([]string, error) {
	given := in.ToolsetKeys
	if strings.TrimSpace(given) == "" {
		given = in.ToolsetKey
	}
	if strings.TrimSpace(given) == "" {
		return nil, nil
	}
	var keys []string
	for key := range strings.SplitSeq(given, ",") {
		if key = strings.TrimSpace(key); key != "" {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errs.New(errs.Invalid, "toolsetKeys holds commas only.").Do("Name toolsets, or leave the parameter out for all.")
	}
	return keys, nil
}

func (c controller) export(ctx context.Context, who actor.Actor, in *exportInput) (exportBody, error) {
	keys, err := in.keys()
	if err != nil {
		return exportBody{}, err
	}
	definitions, failures, err := c.service.Export(ctx, who, keys)
	definitions = ForCode(definitions)
	if err != nil {
		return exportBody{}, err
	}
	if len(failures) > 0 && !in.Partial && len(keys) > 0 {
		return exportBody{}, failures[0].Problem
	}
	return exportBody{partial: in.Partial, Toolsets: definitions, Errors: toFailures(failures)}, nil
}

// exportBody is the list of definitions; in a partial answer the list and
// what is missing from it.
type exportBody struct {
	partial  bool
	Toolsets []Definition  `json:"toolsets"`
	Errors   []failureBody `json:"errors"`
}

// MarshalJSON implements json.Marshaler.
func (b exportBody) MarshalJSON() ([]byte, error) {
	if !b.partial {
		return json.Marshal(b.Toolsets)
	}
	type plain exportBody
	return json.Marshal(plain(b))
}

// Schema implements huma.SchemaProvider.
func (exportBody) Schema(r huma.Registry) *huma.Schema {
	list := &huma.Schema{Type: huma.TypeArray, Items: huma.SchemaFromType(r, reflect.TypeFor[Definition]())}
	return &huma.Schema{OneOf: []*huma.Schema{list, {
		Type:     huma.TypeObject,
		Required: []string{"toolsets", "errors"},
		Properties: map[string]*huma.Schema{
			"toolsets": list,
			"errors":   {Type: huma.TypeArray, Items: huma.SchemaFromType(r, reflect.TypeFor[failureBody]())},
		},
	}}}
}

type failureBody struct {
	Key     string `json:"key"`
	ErrCode string `json:"errCode"`
	ErrMsg  string `json:"errMsg"`
}

func toFailures(failures []Failure) []failureBody {
	bodies := make([]failureBody, len(failures))
	for i, f := range failures {
		bodies[i] = failureBody{Key: f.Key, ErrCode: string(errs.CodeOf(f.Problem)), ErrMsg: errs.Message(f.Problem)}
	}
	return bodies
}

type listInput struct {
	IsGlobal string `query:"isGlobal" enum:"true,false" doc:"Only everybody's, or only the caller's own"`
}

func (c controller) list(ctx context.Context, who actor.Actor, in *listInput) ([]instanceBody, error) {
	instances, err := c.service.Toolsets(ctx, who)
	bodies := []instanceBody{}
	for _, i := range instances {
		if in.IsGlobal == "" || (in.IsGlobal == "true") == i.Global {
			bodies = append(bodies, instanceBody(i))
		}
	}
	return bodies, err
}

type instanceBody struct {
	ToolsetID string    `json:"toolsetId"`
	Name      string    `json:"name"`
	Key       string    `json:"key"`
	AuthType  string    `json:"authType"`
	Global    bool      `json:"isGlobal"`
	Enabled   bool      `json:"enabled"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

func (c controller) inventory(ctx context.Context, _ actor.Actor, _ *struct{}) ([]inventoryBody, error) {
	items, err := c.service.Inventory(ctx)
	bodies := make([]inventoryBody, len(items))
	for i, item := range items {
		bodies[i] = inventoryBody{Key: item.Key, Type: item.Type, Domain: item.Domain, LabelDict: item.Labels, DescriptionDict: item.Descriptions, Tools: []inventoryTool{}}
		for _, m := range item.Methods() {
			bodies[i].Tools = append(bodies[i].Tools, inventoryTool{Name: m.Name, DescriptionDict: map[string]string{"en": m.Description}})
		}
	}
	return bodies, err
}

type inventoryBody struct {
	Key             string            `json:"key"`
	Type            string            `json:"type"`
	Domain          string            `json:"domain,omitempty"`
	LabelDict       map[string]string `json:"labelDict"`
	DescriptionDict map[string]string `json:"descriptionDict"`
	Tools           []inventoryTool   `json:"tools"`
}

type inventoryTool struct {
	Name            string            `json:"name"`
	DescriptionDict map[string]string `json:"descriptionDict"`
}

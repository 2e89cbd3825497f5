package toolset

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
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
}

type exportInput struct {
	ToolsetKeys string `query:"toolsetKeys" maxLength:"8192" doc:"Keys, separated by commas"`
	ToolsetKey  string `query:"toolsetKey" maxLength:"8192" doc:"The same under its other name"`
	Partial     string `query:"partial" enum:"true,false" doc:"Answer {toolsets, errors} instead of failing for one bad key"`
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
	definitions, failures, err := c.service.ExportForSDK(ctx, who, keys)
	definitions = ForCode(definitions)
	if err != nil {
		return exportBody{}, err
	}
	for _, d := range definitions {
		for i := range d.Tools {
			d.Tools[i].AllowedCallers = d.Tools[i].Callers.Names()
		}
	}
	if len(failures) > 0 && !(in.Partial == "true") && len(keys) > 0 {
		return exportBody{}, failures[0].Problem
	}
	return exportBody{partial: (in.Partial == "true"), Toolsets: definitions, Errors: toFailures(failures)}, nil
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

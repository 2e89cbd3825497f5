package install

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
)

func (c controller) registerOne(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-toolset", Method: http.MethodGet, Path: "/v1/tool/toolset/{key}", Tag: "toolsets", Errors: []errs.Code{errs.ToolsetMissing},
		Summary:     "All about one toolset: its tools with their schemas, what they cost, and what it needs to work for the caller",
		Description: "For every toolset of GET /v1/tool/inventory/list and GET /v1/tool/user/list, and for MCP servers by their names.",
	}, c.one)
}

type oneInput struct {
	Key string `path:"key" maxLength:"128" doc:"The toolset, or the name of an MCP server"`
}

type oneBody struct {
	Key         string        `json:"key"`
	Name        string        `json:"name"`
	Type        string        `json:"type" doc:"builtin, mcp, regular, or the kind of accounts that it needs"`
	Description string        `json:"description"`
	Domain      string        `json:"domain,omitempty"`
	State       State         `json:"state" enum:"ready,available,needs_account,needs_key,off,broken" doc:"available: may be installed and needs nothing for that"`
	Problem     string        `json:"problem,omitempty" doc:"Why it does not work, and what to do"`
	ConnectURL  string        `json:"connectUrl,omitempty" doc:"The page on which a person connects the account that is needed"`
	Toolset     *instanceBody `json:"toolset,omitempty" doc:"The toolset that the caller has, without its credential"`
	Server      *Server       `json:"mcpServer,omitempty"`
	Health      *ServerHealth `json:"health,omitempty" doc:"How an MCP server does for the caller"`
	Patterns    []Pattern     `json:"authPatterns" nullable:"false" doc:"What is given to install it; never what was given"`
	Items       []Item        `json:"configItems" nullable:"false"`
	Tools       []oneTool     `json:"tools" nullable:"false" doc:"Empty where a provider lists them and the toolset is not ready"`
}

type oneTool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Line         string          `json:"line,omitempty" doc:"How a program calls it, as a model reads it; absent where code may not call it"`
	Callers      []string        `json:"callers" nullable:"false" enum:"direct,code" doc:"Who may call it: a model by a tool call, or code"`
	ReadOnly     *bool           `json:"readOnly,omitempty" doc:"Absent where nobody says it. Of an MCP server it is the server's claim"`
	Idempotent   *bool           `json:"idempotent,omitempty" doc:"Calling it twice is calling it once; absent where nobody says it"`
	Function     string          `json:"function,omitempty" doc:"The name by which every program calls it as a plain function, where an operator marked it"`
	Price        *oneCost        `json:"price,omitempty" doc:"Absent where it is not billed"`
}

type oneCost struct {
	Credits *money.Amount `json:"credits,omitempty" doc:"Of a call; absent where it varies with the call"`
	Varies  bool          `json:"varies"`
}

func (c controller) one(ctx context.Context, who actor.Actor, in *oneInput) (oneBody, error) {
	one, err := c.service.One(ctx, who, in.Key)
	if err != nil {
		return oneBody{}, err
	}
	b := oneBody{
		Key: one.Key, Name: one.Name, Type: one.Type, Description: one.Description, Domain: one.Domain, State: one.State, Problem: one.Problem, ConnectURL: one.ConnectURL,
		Server: one.Server, Health: one.Health, Patterns: append([]Pattern{}, one.Patterns...), Items: append([]Item{}, one.Items...), Tools: []oneTool{},
	}
	if one.Instance != nil {
		b.Toolset = new(toInstance(*one.Instance))
	}
	for _, t := range one.Tools {
		b.Tools = append(b.Tools, toTool(t))
	}
	return b, nil
}

func toTool(t OneTool) oneTool {
	b := oneTool{
		Name: t.Name, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema, Line: t.Line, Callers: []string{},
		ReadOnly: t.ReadOnly, Idempotent: t.Idempotent, Function: t.Function,
	}
	if t.Callers.Direct {
		b.Callers = append(b.Callers, "direct")
	}
	if t.Callers.Code {
		b.Callers = append(b.Callers, "code")
	}
	if t.Billed {
		b.Price = &oneCost{Varies: t.Varies}
		if !t.Varies {
			b.Price.Credits = &t.Price
		}
	}
	return b
}

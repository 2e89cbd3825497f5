package program

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox/stub"
	"github.com/portico-run/portico/modules/toolset"
)

// named are the toolsets that a program names.
type named struct {
	sets []toolset.Definition
	// unlisted are MCP servers whose tools are not known, with the tools that the
	// program seems to call.
	unlisted []toolset.Definition
	// classes are the keys of those that the SDK should have.
	classes  []string
	warnings []string
}

// named describes the toolsets that a program names. What cannot be described is
// left out. Calls of an MCP server that cannot be asked for its tools reach the
// service all the same, which says why: such as where the user authorizes it.
func (s *Service) named(ctx context.Context, a actor.Actor, req Request) (n named, err error) {
	if len(req.Toolsets) == 0 {
		return n, nil
	}
	sets, failures, err := s.deps.Access.Tools.Export(ctx, a, req.Toolsets)
	if err != nil {
		return n, err
	}
	n.sets, n.classes = toolset.Select(sets, req.Selected), slices.Clone(req.Toolsets)
	servers := map[string]bool{}
	for _, set := range sets {
		servers[set.Key] = set.Server
	}
	for _, f := range failures {
		if !f.Server {
			continue
		}
		servers[f.Key] = true
		n.warnings = append(n.warnings, fmt.Sprintf("The tools of MCP server %s are not known: %s", f.Key, errs.Message(f.Problem)))
		n.unlisted = append(n.unlisted, toolset.Definition{Key: f.Key, Name: f.Key, Tools: called(req, f.Key)})
	}
	n.classes = slices.DeleteFunc(n.classes, func(key string) bool { return servers[key] })
	return n, nil
}

// maxCalled bounds the functions that are made for one server whose tools are not
// known.
const maxCalled = 100

// anyArguments takes some arguments by position, and all others by name: nobody
// knows what the tool takes.
const anyArguments = `{"type":"object","additionalProperties":true,"properties":{"_1":{},"_2":{},"_3":{},"_4":{},"_5":{},"_6":{},"_7":{},"_8":{}}}`

// called are the tools of a server that code seems to call, by their names in it.
func called(req Request, key string) []toolset.ToolDefinition {
	form := regexp.MustCompile(`\b` + regexp.QuoteMeta(stub.Name(req.Language, key)) + `(?:__|\s*\.\s*)([A-Za-z]\w*)`)
	tools := []toolset.ToolDefinition{}
	for _, found := range form.FindAllStringSubmatch(req.Code, -1) {
		name := key + "__" + found[1]
		known := slices.ContainsFunc(tools, func(t toolset.ToolDefinition) bool { return t.Name == name })
		if !known && len(tools) < maxCalled {
			tools = append(tools, toolset.ToolDefinition{Name: name, InputSchema: json.RawMessage(anyArguments), Callers: toolset.Callers{Code: true}})
		}
	}
	return tools
}

package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/portico-run/portico/modules/agent/builtin"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/agent/prompt"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
	"github.com/portico-run/portico/modules/toolset"
)

// direct are the tools of the toolsets that the model gets with their whole
// schemas: all where it writes no code, and otherwise those that code is not
// the only way to. Their names are none of the server's own.
func (o *offers) direct(ctx context.Context, m builtin.Mode, own []loop.Tool) []loop.Tool {
	var list []loop.Tool
	taken := map[string]bool{prompt.ExecuteCode: true, prompt.ExecCode: true}
	for _, t := range own {
		taken[t.Name] = true
	}
	for _, set := range o.toolsets.sets {
		for _, t := range set.Tools {
			if !t.Callers.OfferedDirectly(m.Code) || m.Minimal && t.Callers.Code {
				continue
			}
			name := stub.Name(sandbox.Python, set.Key+"_"+t.Name)
			if name == "" {
				o.service.deps.Logger.WarnContext(ctx, "a tool is left out of a run: no model could name it", "toolset", set.Key, "tool", t.Name)
				continue
			}
			name = unique(name, taken)
			taken[name] = true
			list = append(list, o.directTool(name, set.Key, t))
		}
	}
	return list
}

// unique is a name of the length that providers take, and of nothing else.
func unique(name string, taken map[string]bool) string {
	cut := name[:min(len(name), model.MaxToolName)]
	for n := 2; taken[cut]; n++ {
		suffix := fmt.Sprintf("_%d", n)
		cut = name[:min(len(name), model.MaxToolName-len(suffix))] + suffix
	}
	return cut
}

func (o *offers) directTool(name, key string, t toolset.ToolDefinition) loop.Tool {
	description := t.Description
	if strings.TrimSpace(description) == "" {
		description = t.Name + " of " + key
	}
	tool := loop.Tool{Name: name, Description: description, Schema: t.InputSchema, Checks: true, Toolset: key, Method: t.Name}
	tool.Run = func(ctx context.Context, c loop.Call) (string, error) { return o.calls.Execute(ctx, c, tool) }
	return tool
}

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// direct are the tools of the toolsets that the model gets with their whole
// schemas: all where it writes no code, and otherwise those that code is not
// the only way to. Their names are none of the server's own.
func (j *job) direct(ctx context.Context, own []Tool) []Tool {
	var list []Tool
	taken := map[string]bool{executeCode: true, execCode: true}
	for _, t := range own {
		taken[t.Name] = true
	}
	for _, set := range j.sets {
		for _, t := range set.Tools {
			if !t.Callers.OfferedDirectly(j.writes) || j.minimal() && t.Callers.Code {
				continue
			}
			name := stub.Name(sandbox.Python, set.Key+"_"+t.Name)
			if name == "" {
				j.service.Logger.WarnContext(ctx, "a tool is left out of a run: no model could name it", "toolset", set.Key, "tool", t.Name)
				continue
			}
			name = unique(name, taken)
			taken[name] = true
			list = append(list, j.directTool(name, set.Key, t))
		}
	}
	return list
}

// unique is a name of the length that providers take, and of nothing else.
func unique(name string, taken map[string]bool) string {
	cut := name[:min(len(name), maxToolName)]
	for n := 2; taken[cut]; n++ {
		suffix := fmt.Sprintf("_%d", n)
		cut = name[:min(len(name), maxToolName-len(suffix))] + suffix
	}
	return cut
}

func (j *job) directTool(name, key string, t toolset.ToolDefinition) Tool {
	description := t.Description
	if strings.TrimSpace(description) == "" {
		description = t.Name + " of " + key
	}
	return Tool{
		Name: name, Description: description, Schema: t.InputSchema, toolset: key, method: t.Name,
		Run: func(ctx context.Context, c Call) (string, error) {
			call, answer, err := j.service.Tools.ExecuteForModel(ctx, j.actor, j.run, tool.ModelCall{
				Shown: j.live.shownAs(c.ID), Toolset: key, Tool: t.Name, Arguments: c.Arguments,
			})
			if err != nil {
				return "", err
			}
			c.Recorded(call.CallID)
			if answer.Status != tool.Success {
				j.live.given(ctx, call.CallID, answer.Error)
				return string(answer.Data), errors.New(answer.Error)
			}
			j.live.given(ctx, call.CallID, string(answer.Data))
			return string(answer.Data), nil
		},
	}
}

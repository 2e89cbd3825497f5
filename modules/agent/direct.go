package agent

import (
	"context"
	"errors"
	"strings"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// direct are the tools of the toolsets that the model gets with their whole
// schemas: all where it writes no code, and otherwise those that code is not
// the only way to.
func (j *job) direct(ctx context.Context) []Tool {
	var list []Tool
	taken := map[string]bool{}
	for _, set := range j.sets {
		for _, t := range set.Tools {
			if !t.Callers.OfferedDirectly(j.writes) {
				continue
			}
			name := stub.Name(sandbox.Python, set.Key+"_"+t.Name)
			if !toolName.MatchString(name) || taken[name] {
				j.service.Logger.WarnContext(ctx, "a tool is left out of a run: no model could name it", "toolset", set.Key, "tool", t.Name)
				continue
			}
			taken[name] = true
			list = append(list, j.directTool(name, set.Key, t))
		}
	}
	return list
}

func (j *job) directTool(name, key string, t toolset.ToolDefinition) Tool {
	description := t.Description
	if strings.TrimSpace(description) == "" {
		description = t.Name + " of " + key
	}
	return Tool{
		Name: name, Description: description, Schema: t.InputSchema,
		Run: func(ctx context.Context, c Call) (string, error) {
			call, answer, err := j.service.Tools.ExecuteForModel(ctx, j.actor, j.run, key, t.Name, c.Arguments)
			if err != nil {
				return "", err
			}
			c.Recorded(call.CallID)
			if answer.Status != tool.Success {
				j.live.message(ctx, call.CallID, t.Name, key, "failed", answer.Error)
				return string(answer.Data), errors.New(answer.Error)
			}
			j.live.message(ctx, call.CallID, t.Name, key, "completed", string(answer.Data))
			return string(answer.Data), nil
		},
	}
}

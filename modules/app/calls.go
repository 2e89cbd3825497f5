package app

import (
	"context"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/run/stream"
	"github.com/portico-run/portico/modules/tool"
)

// calls shows the records of tool calls to the live view, which stands on the
// same floor and cannot ask for them itself.
type calls struct{ tools *tool.Service }

func (c calls) Calls(ctx context.Context, a actor.Actor, ids []string) (map[string]stream.Call, error) {
	records, err := c.tools.Calls(ctx, a, ids)
	out := make(map[string]stream.Call, len(records))
	for id, r := range records {
		out[id] = stream.Call{
			CallID: r.CallID, ParentID: r.ParentID, Origin: r.Origin, ToolsetKey: r.Toolset, ToolName: r.Tool, StepName: r.StepName, Status: string(r.Status),
			Input: string(r.Input), Output: string(r.Output), Error: r.Error, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		}
	}
	return out, err
}

package composio

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/resource"
)

// Execute implements tool.Executor. A call is never repeated once it was sent.
func (c *Connector) Execute(ctx context.Context, in tool.Invocation) (tool.Outcome, error) {
	arguments, err := c.upload(ctx, in, in.Arguments)
	if err != nil {
		return failure(err)
	}
	object, _ := arguments.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	got, err := c.deps.Client.Execute(ctx, Execution{
		Slug: in.Method.Name, Version: in.Method.Revision, AccountID: in.Credential.Name, UserID: in.Credential.Username, Arguments: object,
	})
	if err != nil {
		if AccountLost(err) {
			err = errors.Join(err, c.Lost(ctx, in.Credential.Username, in.Toolset.Key))
		}
		return failure(err)
	}
	if !got.Successful {
		if got.Error == "" {
			got.Error = "Tool execution failed"
		}
		return tool.Outcome{Failure: &tool.Failure{Code: "TOOL_FAILED", Message: got.Error, Data: got.Data}}, nil
	}
	if len(got.Data) == 0 {
		got.Data = json.RawMessage("{}")
	}
	return tool.Outcome{Data: got.Data, StoredFiles: true}, nil
}

func failure(err error) (tool.Outcome, error) {
	if f, ok := errors.AsType[*upstream.Failure](err); ok {
		return tool.Outcome{Failure: f}, nil
	}
	return tool.Outcome{}, err
}

// upload stores the files among the arguments at the service and puts what it
// calls them in their places.
func (c *Connector) upload(ctx context.Context, in tool.Invocation, v any) (any, error) {
	switch v := v.(type) {
	case resource.File:
		f := File{Name: v.Name, Type: v.Type}
		if f.Name == "" {
			f.Name = "file"
		}
		if f.Type == "" {
			f.Type = "application/octet-stream"
		}
		return c.deps.Client.Upload(ctx, Upload{Toolkit: Toolkit(in.Toolset.Key), Tool: in.Method.Name, File: f, Content: v.Content, Egress: in.Toolset.Egress})
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			var err error
			if out[i], err = c.upload(ctx, in, item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			var err error
			if out[name], err = c.upload(ctx, in, item); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

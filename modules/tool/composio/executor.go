// Package composio executes tools through Composio, for the account of the
// caller or for the one that all callers share.
package composio

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"

	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/composio"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/resource"
)

// Service is what executes.
type Service interface {
	Execute(ctx context.Context, e composio.Execution) (composio.Result, error)
	Upload(ctx context.Context, toolkit, tool string, f composio.File, content []byte, egress []netip.Prefix) (composio.File, error)
}

// Accounts is told of accounts that the service no longer takes.
type Accounts interface {
	Lost(ctx context.Context, uid, key string) error
}

// Executor implements tool.Executor.
type Executor struct {
	Service  Service
	Accounts Accounts
}

// Execute implements tool.Executor. A call is never repeated once it was sent.
func (e Executor) Execute(ctx context.Context, in tool.Invocation) (tool.Outcome, error) {
	arguments, err := e.upload(ctx, in, in.Arguments)
	if err != nil {
		return failure(err)
	}
	object, _ := arguments.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	got, err := e.Service.Execute(ctx, composio.Execution{
		Slug: in.Method.Name, Version: in.Method.Revision, AccountID: in.Credential.Name, UserID: in.Credential.Username, Arguments: object,
	})
	if err != nil {
		if composio.AccountLost(err) {
			err = errors.Join(err, e.Accounts.Lost(ctx, in.Credential.Username, in.Toolset.Key))
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
func (e Executor) upload(ctx context.Context, in tool.Invocation, v any) (any, error) {
	switch v := v.(type) {
	case resource.File:
		f := composio.File{Name: v.Name, Type: v.Type}
		if f.Name == "" {
			f.Name = "file"
		}
		if f.Type == "" {
			f.Type = "application/octet-stream"
		}
		return e.Service.Upload(ctx, composio.Toolkit(in.Toolset.Key), in.Method.Name, f, v.Content, in.Toolset.Egress)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			var err error
			if out[i], err = e.upload(ctx, in, item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			var err error
			if out[name], err = e.upload(ctx, in, item); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

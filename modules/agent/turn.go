package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/portico-run/portico/modules/compact"
	"github.com/portico-run/portico/modules/internal/actor"
	"github.com/portico-run/portico/modules/internal/database"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
	"github.com/portico-run/portico/modules/sdkbundle"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// job is one run's tools and what they work with.
type job struct {
	service  *Service
	actor    actor.Actor
	run      run.Run
	toolsets []string
	title    string
	live     *live
	sets     []toolset.Definition
}

// turn lets the model answer what the user said, and returns which model that
// was.
func (s *Service) turn(ctx context.Context, a actor.Actor, r run.Run, req Request, decision ptc.Decision) (model string, err error) {
	var keys []string
	for _, k := range req.Toolsets {
		if !ptc.IsBuiltin(k) {
			keys = append(keys, k)
		}
	}
	l := newLive(ctx, s, r)
	defer l.close(ctx)
	err = l.append(ctx, func(ctx context.Context, tx database.Tx) error {
		return s.Runs.AddMessage(ctx, tx, a.UID, r.ResultID, r.Version, run.NewMessage{Type: run.Human, Content: req.Query})
	})
	if err != nil {
		return "", err
	}
	j := &job{service: s, actor: a, run: r, toolsets: keys, title: req.Title, live: l}
	var missing []string
	if len(keys) > 0 {
		sets, failures, err := s.Access.Tools.Export(ctx, a, keys)
		if err != nil {
			return "", err
		}
		j.sets = sets
		for _, f := range failures { // one that is broken does not take the others with it
			missing = append(missing, f.Key)
			s.Logger.WarnContext(ctx, "a toolset is left out of a run", "resultId", r.ResultID, "toolset", f.Key, "error", f.Problem)
		}
	}
	prompt := Prompt{Code: decision.Enabled, Sequential: decision.Sequential, Missing: missing}
	list := j.builtins()
	if decision.Enabled {
		if prompt.Toolsets, err = j.described(ctx); err != nil {
			return "", err
		}
		list = append(list, j.code(), j.search(), j.help())
	} else {
		list = append(list, j.direct(ctx)...)
	}
	tools, err := NewTools(list...)
	if err != nil {
		return "", err
	}
	tools.alias("exec_code", executeCode)
	for _, note := range tools.Notes {
		s.Logger.InfoContext(ctx, "a tool's schema", "resultId", r.ResultID, "note", note)
	}
	loop := &Loop{
		Model: s.Model, System: prompt.String(), Tools: tools, Limits: s.Settings.Limits, Choice: req.Choice, OneByOne: req.OneByOne, Observer: l,
	}
	o, err := loop.Turn(ctx, nil, req.Query)
	return o.Model, err
}

// described are the toolsets as the prompt shows them: the documentation of
// their SDK, or their lines where the SDK has none.
func (j *job) described(ctx context.Context) ([]Described, error) {
	docs := map[string]string{}
	if len(j.sets) > 0 {
		c, err := j.service.Access.SDK.Context(ctx, j.actor, j.toolsets)
		switch {
		case errors.Is(err, sdkbundle.ErrMissing):
		case err != nil:
			return nil, err
		}
		for _, d := range c.SDK.Docs {
			docs[d.ToolsetKey] = d.Content
		}
	}
	var list []Described
	for _, set := range j.sets {
		d := Described{Key: set.Key, Docs: docs[set.Key]}
		if d.Docs == "" {
			for _, t := range set.Tools {
				d.Lines = append(d.Lines, line(t))
			}
		}
		list = append(list, d)
	}
	return list, nil
}

func line(t toolset.ToolDefinition) string {
	return compact.Line("", compact.Tool{Name: t.Name, Description: t.Description, Input: t.InputSchema})
}

// executeCode is the name of the tool that runs programs.
const executeCode = "execute_code"

// code is the tool that runs programs.
func (j *job) code() Tool {
	return Tool{
		Name: executeCode, Own: true,
		Description: "Run a Python program. Tools are called inside it; only what it prints comes back. Each program is a process of its own: " +
			"it must be complete, variables do not survive it. numpy, pandas, matplotlib, scipy, scikit-learn and pyarrow are there; nothing can be installed.",
		Schema: json.RawMessage(`{"type":"object","properties":{
			"code":{"type":"string","description":"The whole program"},
			"timeout":{"type":["integer","null"],"description":"Time limit in seconds; null for the usual one"}},
			"required":["code","timeout"],"additionalProperties":false}`),
		Run: func(ctx context.Context, c Call) (string, error) {
			var in struct {
				Code    string
				Timeout *int
			}
			if err := json.Unmarshal(c.Arguments, &in); err != nil {
				return "", err
			}
			req := program.Request{
				Code: plain(in.Code), Language: sandbox.Python, Toolsets: j.toolsets, Timeout: j.service.Settings.CodeTimeout,
				ResultID: j.run.ResultID, CanvasID: j.run.CanvasID, Title: j.title,
			}
			if in.Timeout != nil && *in.Timeout > 0 {
				req.Timeout = seconds(*in.Timeout)
			}
			o, err := j.service.Programs.Execute(ctx, j.actor, req)
			if err != nil {
				return "", err
			}
			text, failed := result(o)
			status := "completed"
			if failed != nil {
				status = "failed"
			}
			j.live.message(ctx, o.CallID, executeCode, executeCode, status, text)
			return text, failed
		},
	}
}

// plain takes the fence off code that a model put into one.
func plain(code string) string {
	trimmed := strings.TrimSpace(code)
	if !strings.HasPrefix(trimmed, "```") || !strings.HasSuffix(trimmed, "```") {
		return code
	}
	first, rest, found := strings.Cut(trimmed, "\n")
	if !found || strings.ContainsAny(strings.TrimPrefix(first, "```"), " `") {
		return code
	}
	return strings.TrimSuffix(rest, "```")
}

// result is what the model sees of a program: what it printed, and, if it
// failed, why and after how many calls that cannot be undone.
func result(o program.Outcome) (string, error) {
	var text strings.Builder
	text.WriteString(o.Stdout)
	for _, w := range o.Warnings {
		fmt.Fprintf(&text, "\n[%s]", w)
	}
	if o.Status == sandbox.Completed {
		if text.Len() == 0 {
			return "[the program printed nothing]", nil
		}
		return text.String(), nil
	}
	if o.Stderr != "" {
		fmt.Fprintf(&text, "\n%s", o.Stderr)
	}
	return text.String(), fmt.Errorf("the program ended with %s (exit code %d) after %d ms; it had made %d tool calls, which are not undone",
		o.Status, o.ExitCode, o.DurationMS, len(o.ToolCalls))
}

// direct are the tools of the toolsets with their whole schemas, for a model
// that writes no code.
func (j *job) direct(ctx context.Context) []Tool {
	var list []Tool
	taken := map[string]bool{}
	for _, set := range j.sets {
		for _, t := range set.Tools {
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
			if answer.Status != tool.Success {
				j.live.message(ctx, call.CallID, t.Name, key, "failed", answer.Error)
				return string(answer.Data), errors.New(answer.Error)
			}
			j.live.message(ctx, call.CallID, t.Name, key, "completed", string(answer.Data))
			return string(answer.Data), nil
		},
	}
}

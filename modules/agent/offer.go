package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/sdkbundle"
	"github.com/portico-run/portico/modules/toolset"
)

// offer decides whether the model writes code, and returns what it gets: what it
// is told, and its tools. A model that writes code is given the documentation
// of the SDK, or a line for each tool where the documentation costs more than
// plain tool calling would. Whether it calls the tools plainly where that costs
// less than both is the administrator's decision.
func (j *job) offer(ctx context.Context) (system string, tools *Tools, err error) {
	j.writes = j.decision.Enabled
	if system, tools, err = j.form(ctx); err != nil || !j.comparable() {
		return system, tools, err
	}
	j.writes = false
	plainly, plain, err := j.form(ctx)
	if err != nil {
		return "", nil, err
	}
	j.writes = true
	cheaper, note, err := j.service.cheaper(plainly, plain, system, tools)
	if err == nil && cheaper {
		// The documentation of the SDK costs too much; a line for each tool may
		// not.
		j.brief = true
		if system, tools, err = j.form(ctx); err == nil {
			cheaper, note, err = j.service.cheaper(plainly, plain, system, tools)
		}
	}
	if err != nil || !cheaper || !j.mayBreakEven() {
		return system, tools, err
	}
	j.writes = false
	j.say(ctx, "info", note)
	return plainly, plain, nil
}

// comparable reports whether plain tool calling is an alternative that costs
// can be compared with: where there is something to call, and nothing that code
// alone may call.
func (j *job) comparable() bool {
	tools := 0
	for _, set := range j.sets {
		for _, t := range set.Tools {
			tools++
			if !t.Callers.Direct {
				return false
			}
		}
	}
	return j.writes && tools > 0
}

// mayBreakEven reports whether tools may be called plainly although the model
// may write code: the administrator wants it, the user does not insist on code,
// and code comes first for none.
func (j *job) mayBreakEven() bool {
	if !j.service.Settings.BreakEven || j.insists {
		return false
	}
	for _, set := range j.sets {
		if slices.ContainsFunc(set.Tools, func(t toolset.ToolDefinition) bool { return t.Callers.CodeFirst }) {
			return false
		}
	}
	return true
}

// form builds one of the two forms: for a model that writes code, or not.
func (j *job) form(ctx context.Context) (string, *Tools, error) {
	prompt := Prompt{Code: j.writes, Lifecycle: j.service.Settings.Lifecycle, Files: j.run.CanvasID != "", Sequential: j.decision.Sequential, Missing: j.missing}
	if j.writes {
		var err error
		if prompt.Toolsets, err = j.described(ctx); err != nil {
			return "", nil, err
		}
		prompt.CodeTool, prompt.Minimal, prompt.Functions = j.service.Settings.CodeTool, j.minimal(), j.catalogue.Lines(ptc.Own)
	}
	own := j.own()
	tools, err := NewTools(append(own, j.direct(ctx, own)...)...)
	if err != nil {
		return "", nil, err
	}
	for _, name := range []string{executeCode, execCode} {
		tools.alias(name, j.service.Settings.CodeTool)
	}
	for _, note := range tools.Notes {
		j.service.Logger.InfoContext(ctx, "a tool's schema", "resultId", j.run.ResultID, "note", note)
	}
	return prompt.String(), tools, nil
}

// own are the server's own tools that the model gets with their schemas.
func (j *job) own() []Tool {
	var list []Tool
	if j.service.Settings.Lifecycle {
		list = j.lifecycle()
	}
	if j.minimal() {
		return append(list, j.code())
	}
	list = slices.Concat(list, j.builtins(), j.files(), []Tool{j.chart(), j.repl()})
	if j.writes {
		list = append(list, j.code(), j.search(), j.help())
	}
	return list
}

// minimal reports whether the model gets the tool that runs code, and all else
// in code only. One that writes no code must get the tools themselves.
func (j *job) minimal() bool { return j.writes && j.service.Settings.Minimal }

// mayCost is how many times as long plain tool calling must be for nobody to
// count tokens.
const mayCost = 3

// cheaper decides whether plain tool calling costs fewer tokens than code, in
// every request, and says it.
func (s *Service) cheaper(plainly string, plain *Tools, coded string, code *Tools) (cheaper bool, note string, err error) {
	a, err := prompted(plainly, plain)
	if err != nil {
		return false, "", err
	}
	b, err := prompted(coded, code)
	if err != nil || len(a) > mayCost*len(b) {
		return false, "", err
	}
	counter, err := s.counter()
	if err != nil {
		return false, "", err
	}
	costs := [2]int{}
	for i, text := range []string{a, b} {
		if costs[i], err = counter.Count(text); err != nil {
			return false, "", err
		}
	}
	return costs[0] <= costs[1], fmt.Sprintf("Tools are called plainly: describing them takes %d tokens of each request, and %d for programs.",
		costs[0], costs[1]), nil
}

// prompted is what a request holds before anything is said.
func prompted(system string, tools *Tools) (string, error) {
	definitions, err := json.Marshal(tools.Definitions())
	return system + string(definitions), err
}

// say shows a sentence of the server's in the run.
func (j *job) say(ctx context.Context, level, text string) {
	j.service.Logger.InfoContext(ctx, "a run is told", "resultId", j.run.ResultID, "text", text)
	_ = j.live.append(ctx, func(ctx context.Context, tx database.Tx) error { // it is in the log, too
		_, err := j.live.event(ctx, tx, run.NewEvent{Type: run.Log, Payload: map[string]any{"log": map[string]any{"level": level, "content": text}}})
		return err
	})
}

// described are the toolsets as the prompt shows them: the documentation of
// their SDK, or their lines where the SDK lacks one of their tools or tells of
// tools that code may not call. It renews the catalogue, too.
func (j *job) described(ctx context.Context) ([]Described, error) {
	var known sdkbundle.Context
	if len(j.sets) > 0 {
		var err error
		known, err = j.service.Access.SDK.Context(ctx, j.actor, j.toolsets)
		if err != nil && !errors.Is(err, sdkbundle.ErrMissing) {
			return nil, err
		}
	}
	j.catalogue = catalogue.New(append(slices.Clone(j.sets), program.Own(j.functions())), known.Classes)
	j.catalogue.Shape = func(ctx context.Context, key, name string) (string, error) {
		return j.service.Records.LastShape(ctx, j.actor, key, name)
	}
	docs := map[string]string{}
	for _, d := range known.SDK.Docs {
		docs[d.ToolsetKey] = d.Content
	}
	var list []Described
	for i, set := range toolset.ForCode(j.sets) {
		d := Described{Key: set.Key, Lines: j.catalogue.Lines(set.Key), Class: j.catalogue.ClassOf(set.Key)}
		// Lines stand for classes whose methods are known. Of others, which another
		// generator made, the documentation is all there is, unless it tells of more
		// than the run may call.
		brief := j.brief && known.Classes[set.Key].Methods != nil
		_, narrowed := j.selected[set.Key]
		if !narrowed && !brief && len(set.Tools) == len(j.sets[i].Tools) && j.catalogue.Complete(set.Key) {
			d.Docs = docs[set.Key]
		}
		list = append(list, d)
	}
	return fit(list, maxDescribed), nil
}

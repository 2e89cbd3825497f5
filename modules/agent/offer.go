package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/agent/builtin"
	"github.com/portico-run/portico/modules/agent/live"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/agent/prompt"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/program/flat"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/sdkbundle"
	"github.com/portico-run/portico/modules/toolset"
)

// offers decides what a model gets.
type offers struct {
	service  *Service
	actor    actor.Actor
	toolsets *toolsets
	builtin  *builtin.Set
	calls    *live.Calls
	notices  *notices
	canvas   bool // the run has one
	decision ptc.Decision
	insists  bool // the user wants code, however few tools there are

	// What was decided.
	writes bool // the model writes code
	brief  bool // tools are a line each, whatever documentation there is
}

// offer is what a model gets: what it is told, and its tools.
type offer struct {
	system string
	tools  *loop.Tools
}

// Describe is how a model that writes code is shown tools.
type Describe string

// DescribeAuto shows the documentation of the SDK, or lines where it costs more
// than plain tool calling would; DescribeDocs shows it whatever it costs,
// DescribeLines never, DescribeNames only how many tools a toolset has. What is too
// long for a prompt is shortened by each (prompt.Fit).
const (
	DescribeAuto  Describe = "auto"
	DescribeDocs  Describe = "docs"
	DescribeLines Describe = "lines"
	DescribeNames Describe = "names"
)

// decide decides whether the model writes code, and returns what it gets. A
// model that writes code is given the documentation of the SDK, or a line for
// each tool where the documentation costs more than plain tool calling would.
// Whether it calls the tools plainly where that costs less than both is the
// administrator's decision.
func (o *offers) decide(ctx context.Context) (offer, error) {
	o.writes = o.decision.Enabled
	code, err := o.form(ctx)
	if err != nil || !o.comparable() {
		return code, err
	}
	o.writes = false
	plain, err := o.form(ctx)
	if err != nil {
		return offer{}, err
	}
	o.writes = true
	cheaper, note, err := o.service.cheaper(plain, code)
	if err == nil && cheaper && o.auto() {
		// The documentation of the SDK costs too much; a line for each tool may
		// not.
		o.brief = true
		if code, err = o.form(ctx); err == nil {
			cheaper, note, err = o.service.cheaper(plain, code)
		}
	}
	if err != nil || !cheaper || !o.mayBreakEven() {
		return code, err
	}
	o.writes = false
	o.notices.say(ctx, "info", note)
	return plain, nil
}

// auto reports whether what tools cost decides how they are shown.
func (o *offers) auto() bool {
	d := o.service.deps.Settings.Describe
	return d == "" || d == DescribeAuto
}

// again is what the model gets from now on, if its tools have changed since the
// last request. What cannot be read at the moment stays as it was.
func (o *offers) again(ctx context.Context) (system string, tools *loop.Tools, changed bool) {
	before := *o.toolsets
	changed, err := o.toolsets.refresh(ctx)
	var now offer
	if err == nil && changed {
		now, err = o.form(ctx)
	}
	if err != nil {
		*o.toolsets = before
		o.service.deps.Logger.WarnContext(ctx, "changes of the tools are not noticed", "resultId", o.notices.resultID, "error", err)
		return "", nil, false
	}
	if changed {
		o.calls.Offer(now.tools)
	}
	return now.system, now.tools, changed
}

// comparable reports whether plain tool calling is an alternative that costs
// can be compared with: where there is something to call, and nothing that code
// alone may call.
func (o *offers) comparable() bool {
	tools := 0
	for _, set := range o.toolsets.sets {
		for _, t := range set.Tools {
			tools++
			if !t.Callers.Direct {
				return false
			}
		}
	}
	return o.writes && tools > 0
}

// mayBreakEven reports whether tools may be called plainly although the model
// may write code: the administrator wants it, the user does not insist on code,
// and code comes first for none.
func (o *offers) mayBreakEven() bool {
	if !o.service.deps.Settings.BreakEven || o.insists {
		return false
	}
	for _, set := range o.toolsets.sets {
		if slices.ContainsFunc(set.Tools, func(t toolset.ToolDefinition) bool { return t.Callers.CodeFirst }) {
			return false
		}
	}
	return true
}

// mode is how the model works, as it is decided so far.
func (o *offers) mode() builtin.Mode {
	return builtin.Mode{Code: o.writes, Minimal: o.writes && o.service.deps.Settings.Minimal}
}

// form builds one of the two forms: for a model that writes code, or not.
func (o *offers) form(ctx context.Context) (offer, error) {
	m, settings := o.mode(), o.service.deps.Settings
	p := prompt.Prompt{Code: m.Code, Lifecycle: settings.Lifecycle, Files: o.canvas, Sequential: o.decision.Sequential, Missing: o.toolsets.missing}
	var c *catalogue.Catalogue // of what code may call
	if m.Code {
		functions, err := o.functions(ctx)
		if err != nil {
			return offer{}, err
		}
		if c, p.Toolsets, err = o.described(ctx, m, functions); err != nil {
			return offer{}, err
		}
		p.CodeTool, p.Minimal, p.Functions = settings.CodeTool, m.Minimal, plain(c, functions, p.Toolsets)
	}
	own := o.builtin.Tools(m, c)
	tools, err := loop.NewTools(o.service.deps.Model, append(own, o.direct(ctx, m, own)...)...)
	if err != nil {
		return offer{}, err
	}
	for _, name := range []string{prompt.ExecuteCode, prompt.ExecCode} {
		tools.Alias(name, settings.CodeTool)
	}
	for _, note := range tools.Notes {
		o.service.deps.Logger.InfoContext(ctx, "a tool's schema", "resultId", o.notices.resultID, "note", note)
	}
	return offer{p.String(), tools}, nil
}

// mayCost is how many times as long plain tool calling must be for nobody to
// count tokens.
const mayCost = 3

// cheaper decides whether plain tool calling costs fewer tokens than code, in
// every request, and says it.
func (s *Service) cheaper(plain, code offer) (cheaper bool, note string, err error) {
	a, err := plain.text()
	if err != nil {
		return false, "", err
	}
	b, err := code.text()
	if err != nil || len(a) > mayCost*len(b) {
		return false, "", err
	}
	costs := [2]int{}
	for i, text := range []string{a, b} {
		if costs[i], err = s.counter().Count(text); err != nil {
			return false, "", err
		}
	}
	return costs[0] <= costs[1], fmt.Sprintf("Tools are called plainly: describing them takes %d tokens of each request, and %d for programs.",
		costs[0], costs[1]), nil
}

// text is what a request holds before anything is said.
func (o offer) text() (string, error) {
	definitions, err := json.Marshal(o.tools.Definitions())
	return o.system + string(definitions), err
}

// described are the catalogue of what code may call, and the toolsets as the
// prompt shows them: the documentation of their SDK, or their lines where the
// SDK lacks one of their tools or tells of tools that code may not call.
func (o *offers) described(ctx context.Context, m builtin.Mode, functions []toolset.Definition) (*catalogue.Catalogue, []prompt.Toolset, error) {
	var known sdkbundle.Context
	if len(o.toolsets.sets) > 0 {
		var err error
		known, err = o.service.deps.Access.SDK.Context(ctx, o.actor, o.toolsets.keys)
		if err != nil && !errors.Is(err, sdkbundle.ErrMissing) {
			return nil, nil, err
		}
	}
	sets := append(slices.Clone(o.toolsets.sets), program.Own(o.builtin.Functions(m)))
	c := catalogue.New(flat.Join(sets, functions), known.Classes)
	c.Shape = func(ctx context.Context, key, name string) (string, error) {
		return o.service.deps.Records.Calls.LastShape(ctx, o.actor, key, name)
	}
	docs := map[string]string{}
	for _, d := range known.SDK.Docs {
		docs[d.ToolsetKey] = d.Content
	}
	var list []prompt.Toolset
	for i, set := range toolset.ForCode(o.toolsets.sets) {
		d := prompt.Toolset{Key: set.Key, Lines: c.Lines(set.Key), Class: c.ClassOf(set.Key), Hidden: o.service.deps.Settings.Describe == DescribeNames}
		// Lines stand for classes whose methods are known. Of others, which another
		// generator made, the documentation is all there is, unless it tells of more
		// than the run may call.
		brief := o.brief && known.Classes[set.Key].Methods != nil
		_, narrowed := o.toolsets.selected[set.Key]
		if !narrowed && !brief && o.documented() && len(set.Tools) == len(o.toolsets.sets[i].Tools) && c.Complete(set.Key) {
			d.Docs = docs[set.Key]
		}
		list = append(list, d)
	}
	return c, prompt.Fit(list), nil
}

// documented reports whether the documentation of the SDK may be shown.
func (o *offers) documented() bool {
	return o.auto() || o.service.deps.Settings.Describe == DescribeDocs
}

// functions are the plain functions that programs of the run have.
func (o *offers) functions(ctx context.Context) ([]toolset.Definition, error) {
	if o.service.deps.Access.Flat == nil {
		return nil, nil
	}
	return o.service.deps.Access.Flat.For(ctx, o.actor, o.toolsets.keys)
}

// plain are the lines of the functions that every program has: the server's own,
// and those of toolsets that the prompt shows without lines, or not at all.
func plain(c *catalogue.Catalogue, functions []toolset.Definition, shown []prompt.Toolset) []string {
	lines := c.Lines(ptc.Own)
	for _, set := range functions {
		if set.Key == ptc.Own {
			if slices.ContainsFunc(set.Tools, func(t toolset.ToolDefinition) bool { return t.Name == flat.Query }) {
				lines = append(lines, flat.QueryBatch+"(prompts: list[str]) -> list[str]")
			}
			continue
		}
		if slices.ContainsFunc(shown, func(d prompt.Toolset) bool { return d.Key == set.Key && d.Docs == "" && !d.Hidden }) {
			continue
		}
		for _, t := range c.Tools(set.Key) {
			if t.As != "" {
				lines = append(lines, t.Line())
			}
		}
	}
	return lines
}

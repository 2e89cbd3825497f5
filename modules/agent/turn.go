package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/redact"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run"
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
	decision ptc.Decision
	insists  bool          // the user wants code, however few tools there are
	writes   bool          // the model writes code
	working  chan struct{} // holds an element for each function that works
	selected map[string][]string
	offered  atomic.Pointer[Tools] // what the model has now
	brief    bool                  // tools are a line each, whatever documentation there is
	sets     []toolset.Definition
	missing  []string // toolsets that do not work
	warnings []string // what the user was told about them
	ending   *ending  // how the model itself ended the run; nil when it did not

	catalogue *catalogue.Catalogue // of what code may call; nil where there is no code
}

// ended is what is recorded of a turn.
type ended struct {
	Model    string // the one that answered
	Code     bool   // it wrote code
	Warnings []string
	Ending   *ending
}

// turn lets the model answer what the user said.
func (s *Service) turn(ctx context.Context, a actor.Actor, r run.Run, req Request, decision ptc.Decision) (ended, error) {
	var keys []string
	for _, k := range req.Toolsets {
		if !ptc.IsBuiltin(k) {
			keys = append(keys, k)
		}
	}
	l := newLive(ctx, s, r)
	defer l.close()
	err := l.append(ctx, func(ctx context.Context, tx database.Tx) error {
		return s.Runs.AddMessage(ctx, tx, r.Ref(), run.NewMessage{Event: r.Seq, Type: run.Human, Content: req.Query})
	})
	if err != nil {
		return ended{}, err
	}
	j := &job{
		service: s, actor: a, run: r, toolsets: keys, title: req.Title, live: l, decision: decision, insists: req.Code == CodeOn,
		working: make(chan struct{}, maxWorking), selected: req.Selected,
	}
	l.refuse = j.refuse
	defer j.close(ctx)
	for _, note := range req.Notes {
		j.caution(ctx, note)
	}
	if _, err := j.refresh(ctx); err != nil {
		return ended{}, err
	}
	system, tools, err := j.offer(ctx)
	if err != nil {
		return ended{}, err
	}
	j.offered.Store(tools)
	history, err := s.conversation(ctx, a, r, req.History)
	if err != nil {
		return ended{}, err
	}
	loop := &Loop{
		Model: metered{s, l}, System: system, Tools: tools, Limits: s.Settings.Limits, Choice: req.Choice, OneByOne: req.OneByOne, Observer: l,
		Refresh: j.again, Refused: j.refused,
	}
	o, err := loop.Turn(ctx, history, req.Query)
	if err == nil && j.ending != nil {
		err = l.conclude(ctx, j.ending.answer)
	}
	return ended{o.Model, j.writes, j.warnings, j.ending}, err
}

// refresh reads the definitions of the toolsets again and reports whether they
// have changed.
func (j *job) refresh(ctx context.Context) (changed bool, err error) {
	if len(j.toolsets) == 0 {
		return false, nil
	}
	sets, failures, err := j.service.Access.Tools.Export(ctx, j.actor, j.toolsets)
	if err != nil {
		return false, err
	}
	var missing []string
	for _, f := range failures { // one that is broken does not take the others with it
		missing = append(missing, f.Key)
		j.warn(ctx, f)
	}
	sets = toolset.Select(sets, j.selected)
	for _, set := range sets {
		j.missed(ctx, set)
	}
	changed = !reflect.DeepEqual(j.sets, sets) || !slices.Equal(j.missing, missing)
	j.sets, j.missing = sets, missing
	return changed, nil
}

// warn tells the user once, in the stream and in the record of the run, that a
// toolset is left out.
func (j *job) warn(ctx context.Context, f toolset.Failure) {
	text := fmt.Sprintf("Toolset %s does not work and is left out: %s", f.Key, explain(f.Problem))
	if slices.Contains(j.warnings, text) {
		return
	}
	j.service.Logger.WarnContext(ctx, "a toolset is left out of a run", "resultId", j.run.ResultID, "toolset", f.Key, "error", redact.Text(f.Problem.Error()))
	j.caution(ctx, text)
}

// missed warns of tools that the request selects and a toolset does not have.
func (j *job) missed(ctx context.Context, set toolset.Definition) {
	missing := slices.DeleteFunc(slices.Clone(j.selected[set.Key]), func(name string) bool {
		return slices.ContainsFunc(set.Tools, func(t toolset.ToolDefinition) bool { return t.Name == name })
	})
	if len(missing) > 0 {
		j.caution(ctx, fmt.Sprintf("Toolset %s has no tool %s, which the request selects.", set.Key, strings.Join(missing, ", ")))
	}
}

// caution tells the user something once, in the stream and in the record of the
// run.
func (j *job) caution(ctx context.Context, text string) {
	if slices.Contains(j.warnings, text) {
		return
	}
	j.warnings = append(j.warnings, text)
	j.say(ctx, "warn", text)
}

// again is what the model gets from now on, if its tools have changed since the
// last request. What cannot be read at the moment stays as it was.
func (j *job) again(ctx context.Context) (system string, tools *Tools, changed bool) {
	sets, missing := j.sets, j.missing
	changed, err := j.refresh(ctx)
	if err == nil && changed {
		system, tools, err = j.form(ctx)
	}
	if err != nil {
		j.sets, j.missing = sets, missing
		j.service.Logger.WarnContext(ctx, "changes of the tools are not noticed", "resultId", j.run.ResultID, "error", err)
		return "", nil, false
	}
	if changed {
		j.offered.Store(tools)
	}
	return system, tools, changed
}

// close ends what the run alone used.
func (j *job) close(ctx context.Context) {
	if j.run.CanvasID != "" {
		return
	}
	if _, err := j.service.Interpreters.Reset(ctx, j.actor, j.place()); err != nil {
		j.service.Logger.WarnContext(ctx, "an interpreter was not ended", "resultId", j.run.ResultID, "error", err)
	}
}

// conversation is what was said in earlier runs of the user's: the questions
// and the answers. What their tools returned stays out; read_agent_result and
// read_tool_result find it.
func (s *Service) conversation(ctx context.Context, a actor.Actor, now run.Run, ids []string) ([]model.Item, error) {
	var history []model.Item
	for _, id := range ids {
		var version *int // the newest
		if id == now.ResultID {
			version = new(now.Version - 1) // the one before this
		}
		r, err := s.Runs.Get(ctx, a, id, version)
		if err != nil {
			return nil, err
		}
		messages, err := s.Runs.Messages(ctx, a, run.MessageFilter{ResultID: r.ResultID, Version: r.Version, Spoken: true})
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			item := map[string]any{"type": "message", "role": "user", "content": m.Content}
			switch {
			case m.Content == "":
				continue
			case m.Type == run.AI:
				item["role"], item["content"] = "assistant", []map[string]any{{"type": "output_text", "text": m.Content}}
			}
			raw, err := json.Marshal(item)
			if err != nil {
				return nil, err
			}
			history = append(history, raw)
		}
	}
	return history, nil
}

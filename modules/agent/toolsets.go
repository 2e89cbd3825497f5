package agent

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/redact"
	"github.com/portico-run/portico/modules/agent/live"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/toolset"
)

// toolsets are those that a run names, as they are at the moment.
type toolsets struct {
	catalogue Catalogue
	actor     actor.Actor
	keys      []string
	selected  map[string][]string
	notices   *notices

	sets    []toolset.Definition
	missing []string // those that do not work
}

// refresh reads the definitions of the toolsets again and reports whether they
// have changed.
func (t *toolsets) refresh(ctx context.Context) (changed bool, err error) {
	if len(t.keys) == 0 {
		return false, nil
	}
	sets, failures, err := t.catalogue.Export(ctx, t.actor, t.keys)
	if err != nil {
		return false, err
	}
	var missing []string
	for _, f := range failures { // one that is broken does not take the others with it
		missing = append(missing, f.Key)
		t.warn(ctx, f)
	}
	sets = toolset.Select(sets, t.selected)
	for _, set := range sets {
		t.missed(ctx, set)
	}
	changed = !reflect.DeepEqual(t.sets, sets) || !slices.Equal(t.missing, missing)
	t.sets, t.missing = sets, missing
	return changed, nil
}

// warn tells the user once, in the stream and in the record of the run, that a
// toolset is left out.
func (t *toolsets) warn(ctx context.Context, f toolset.Failure) {
	text := fmt.Sprintf("Toolset %s does not work and is left out: %s", f.Key, loop.Explain(f.Problem))
	if t.notices.told(text) {
		return
	}
	t.notices.logger.WarnContext(ctx, "a toolset is left out of a run", "resultId", t.notices.resultID, "toolset", f.Key, "error", redact.Text(f.Problem.Error()))
	t.notices.caution(ctx, text)
}

// missed warns of tools that the request selects and a toolset does not have.
func (t *toolsets) missed(ctx context.Context, set toolset.Definition) {
	missing := slices.DeleteFunc(slices.Clone(t.selected[set.Key]), func(name string) bool {
		return slices.ContainsFunc(set.Tools, func(d toolset.ToolDefinition) bool { return d.Name == name })
	})
	if len(missing) > 0 {
		t.notices.caution(ctx, fmt.Sprintf("Toolset %s has no tool %s, which the request selects.", set.Key, strings.Join(missing, ", ")))
	}
}

// notices are what the user is told of a run beside its answer.
type notices struct {
	writer   *live.Writer
	logger   *slog.Logger
	resultID string
	warnings []string // what was told so far
}

func (n *notices) told(text string) bool { return slices.Contains(n.warnings, text) }

// caution tells the user something once, in the stream and in the record of the
// run.
func (n *notices) caution(ctx context.Context, text string) {
	if n.told(text) {
		return
	}
	n.warnings = append(n.warnings, text)
	n.say(ctx, "warn", text)
}

// fallback tells that another model answered.
func (n *notices) fallback(ctx context.Context, p model.Passed, instead string) {
	n.caution(ctx, fmt.Sprintf("Model %s gave no answer, and %s was asked instead. %s", p.Name, instead, p.Why))
}

// removed tells that the model does not read all of the conversation any more.
func (n *notices) removed(ctx context.Context, results int) {
	n.logger.InfoContext(ctx, "results were removed from a conversation", "resultId", n.resultID, "results", results)
	n.caution(ctx, "The conversation is longer than the model reads at once: older results of tools were removed from it. The model can read them again.")
}

// say shows a sentence of the server's in the run.
func (n *notices) say(ctx context.Context, level, text string) {
	n.logger.InfoContext(ctx, "a run is told", "resultId", n.resultID, "text", text)
	_ = n.writer.Append(ctx, func(ctx context.Context, tx database.Tx) error { // it is in the log, too
		_, err := n.writer.Event(ctx, tx, run.NewEvent{Type: run.Log, Payload: map[string]any{"log": map[string]any{"level": level, "content": text}}})
		return err
	})
}

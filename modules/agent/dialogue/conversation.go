package dialogue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model"
)

// conversation is what is known of a conversation while the server works on it, and
// while it waits for its client. One turn works on it at a time.
type conversation struct {
	service *Service
	who     actor.Actor
	model   string
	req     Request
	ctx     context.Context //nolint:containedctx // ends what waits for the client
	cancel  context.CancelCauseFunc

	programs described
	fitted   map[string]model.Fitted
	loaded   map[string]bool // deferred tools that the model has
	items    []model.Item
	more     []model.Item // that follow the outputs, once the programs have ended
	// moreBefore is how many of them there were before what the client sent last.
	moreBefore int

	answer answered
	calls  map[string]*asked // what the client is asked for
	before map[string]*asked // what it was asked for by the answer before
	// rejected says that the sandbox did not take what the client sent.
	rejected bool
	session  string
	until    time.Time // until when the session is kept
	ran      bool      // a program was started
	left     int       // outputs that the model was not told again

	// Of the service, under its lock.
	held     []*pause
	idle     *time.Timer
	turn     *turn
	works    bool  // a turn works on it
	reserved int64 // bytes
}

// answered is the last answer of the model, whose calls may not have outputs yet.
type answered struct {
	calls   []model.Call
	outputs []model.Item // of the calls; nil where there is none yet
	queue   []*running   // programs that have not ended, in the order in which they run
}

// asked is something that the client is asked for.
type asked struct {
	approval  bool
	record    string   // of a call that waits for a person
	program   *running // that makes the call; nil for a direct one
	execution string   // its id there
	index     int      // of a direct one, in the answer
}

// prepare fits the tools to what providers take.
func (c *conversation) prepare() error {
	c.fitted, c.loaded = map[string]model.Fitted{}, map[string]bool{}
	add := func(t model.Tool) error {
		if _, twice := c.fitted[t.Name]; twice {
			return errs.Newf(errs.Invalid, "There are two tools %q.", t.Name).Do("Rename one.")
		}
		fitted, err := c.service.deps.Model.Fit(t)
		if err != nil {
			return errs.Newf(errs.Invalid, "The tool %q is not taken: %v.", t.Name, err)
		}
		c.fitted[t.Name] = fitted
		return nil
	}
	if c.req.Programs != nil {
		if err := add(model.Tool{Name: RunCode, Description: runCodeText, Schema: json.RawMessage(runCodeSchema), Own: true}); err != nil {
			return err
		}
	}
	for _, t := range c.req.Tools {
		if t.Description == "" {
			t.Description = t.Name
		}
		if !t.Direct && !t.Code || !t.Direct && c.req.Programs == nil {
			return errs.Newf(errs.Invalid, "Nothing can call the tool %q.", t.Name).Do("Let the model call it directly, or add the tool that runs programs.")
		}
		if err := add(model.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema, Loose: !t.Strict}); err != nil {
			return err
		}
	}
	for _, t := range c.req.Own {
		if err := add(model.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema}); err != nil {
			return err
		}
	}
	return nil
}

// definitions are the tools that the model has now.
func (c *conversation) definitions() []model.Definition {
	var list []model.Definition
	if c.req.Programs != nil {
		list = append(list, c.fitted[RunCode].Definition)
	}
	for _, t := range c.req.Own {
		list = append(list, c.fitted[t.Name].Definition)
	}
	for _, t := range c.req.Tools {
		if t.Direct && (!t.Deferred || c.loaded[t.Name]) {
			list = append(list, c.fitted[t.Name].Definition)
		}
	}
	return list
}

// tool is the client's tool of a name that the model has now.
func (c *conversation) tool(name string) (Tool, bool) {
	for _, t := range c.req.Tools {
		if t.Name == name && t.Direct && (!t.Deferred || c.loaded[name]) {
			return t, true
		}
	}
	return Tool{}, false
}

func (c *conversation) ownTool(name string) (OwnTool, bool) {
	for _, t := range c.req.Own {
		if t.Name == name {
			return t, true
		}
	}
	return OwnTool{}, false
}

// unknown is what the model is told of a call of a tool that it does not have.
func (c *conversation) unknown(name string) string {
	for _, t := range c.req.Tools {
		if t.Name == name && t.Code {
			return fmt.Sprintf("Error: %s is called from programs only. Call it in %s.", name, RunCode)
		}
	}
	return fmt.Sprintf("Error: there is no tool %q.", name)
}

// system is what the model is told before anything else.
func (c *conversation) system() []model.Item {
	text := c.req.System
	if c.req.Programs != nil {
		if text != "" {
			text += "\n\n"
		}
		text += c.programs.text
	}
	if text == "" {
		return nil
	}
	return []model.Item{model.System(text)}
}

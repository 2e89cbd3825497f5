package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/modules/model"
)

// Tool is something a model may call.
type Tool struct {
	Name        string
	Description string
	// Schema describes the arguments, an object.
	Schema json.RawMessage
	// Own says that the schema is ours and must be what the provider takes as it
	// is; a foreign one is fitted as far as it goes.
	Own bool
	// Serial tools change the same things: they run one after the other, in the
	// order of their calls.
	Serial bool
	// Ends says that a call which works is the last thing of the turn, and its
	// output the answer. It is executed after all others of the same answer.
	Ends bool
	// Checks says that Run checks the arguments against the schema itself, and
	// returns a Refusal for those that it does not take.
	Checks bool
	// Run executes one call. Its error is told to the model.
	Run func(ctx context.Context, c Call) (string, error)

	// Toolset and Method are what its calls are recorded as.
	Toolset, Method string
}

// Call is one call of a model. Arguments are an object that the tool's schema
// takes; where the tool checks them itself, they may be anything.
type Call struct {
	ID        string // the provider's
	Name      string
	Arguments json.RawMessage

	record *string
}

// Recorded says under which id the whole result of the call is kept, so that
// the model can read what it is not given.
func (c Call) Recorded(id string) { *c.record = id }

// Record is the id that Recorded was given; empty before.
func (c Call) Record() string { return *c.record }

// CallOf is a call as a model made it, before anything is known of its arguments:
// those that are no JSON are a text.
func CallOf(c model.Call) Call {
	arguments := json.RawMessage(c.Arguments)
	if !json.Valid(arguments) {
		arguments, _ = json.Marshal(c.Arguments) // texts always marshal
	}
	return Call{ID: c.ID, Name: c.Name, Arguments: arguments, record: new(string)}
}

// Tools are what a model may call. They do not change; a run may get others.
type Tools struct {
	list   []*entry
	byName map[string]*entry
	// Notes say of which tools the model gets a looser description, and why.
	Notes []string
}

type entry struct {
	Tool
	fitted model.Fitted
	check  *jsonschema.Schema
}

// Provider prepares tools for a model, and fails on those that it would refuse;
// model.Client does.
type Provider interface {
	Fit(t model.Tool) (model.Fitted, error)
}

// errSchema is a schema that nobody could check arguments against.
var errSchema = errors.New("its schema is no JSON Schema")

// NewTools checks and prepares tools. It fails on a tool that no provider would
// take. A foreign one whose schema is none is left out, with a note, so that it
// does not cost the run.
func NewTools(provider Provider, list ...Tool) (*Tools, error) {
	t := &Tools{byName: map[string]*entry{}}
	for _, tool := range list {
		e, err := prepare(provider, tool)
		if errors.Is(err, errSchema) && !tool.Own {
			t.Notes = append(t.Notes, fmt.Sprintf("%s is left out: %v", tool.Name, err))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tool %q: %w", tool.Name, err)
		}
		if t.byName[tool.Name] != nil {
			return nil, fmt.Errorf("tool %q: there are two of this name", tool.Name)
		}
		if e.fitted.Loose != "" {
			t.Notes = append(t.Notes, fmt.Sprintf("%s is not strict: %s", tool.Name, e.fitted.Loose))
		}
		t.list, t.byName[tool.Name] = append(t.list, e), e
	}
	return t, nil
}

func prepare(provider Provider, tool Tool) (*entry, error) {
	if tool.Run == nil {
		return nil, errors.New("nothing executes it")
	}
	fitted, err := provider.Fit(model.Tool{Name: tool.Name, Description: tool.Description, Schema: tool.Schema, Own: tool.Own})
	if err != nil {
		return nil, err
	}
	check, err := jsonschema.Compile(tool.Schema)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSchema, err)
	}
	return &entry{Tool: tool, fitted: fitted, check: check}, nil
}

// Definitions are what the model is told.
func (t *Tools) Definitions() []model.Definition {
	list := make([]model.Definition, len(t.list))
	for i, e := range t.list {
		list[i] = e.fitted.Definition
	}
	return list
}

// names lists the tools for a model that named none of them.
func (t *Tools) names() string {
	list := make([]string, len(t.list))
	for i, e := range t.list {
		list[i] = e.Name
	}
	return strings.Join(list, ", ")
}

// arguments reads what a model wrote. The error is a sentence for the model.
func (e *entry) arguments(text string) (json.RawMessage, error) {
	raw, err := e.fitted.Arguments(text)
	if err != nil {
		return nil, jsonschema.NotJSON(err)
	}
	if e.Checks {
		return raw, nil
	}
	object, err := e.check.Arguments(raw)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object) // with the defaults of the schema
}

// Find returns the tool that is called by a name.
func (t *Tools) Find(name string) (Tool, bool) {
	e, ok := t.byName[name]
	if !ok {
		return Tool{}, false
	}
	return e.Tool, true
}

// Alias lets a tool be called by another name as well, which the model is not
// told.
func (t *Tools) Alias(name, of string) {
	if e := t.byName[of]; e != nil && t.byName[name] == nil {
		t.byName[name] = e
	}
}

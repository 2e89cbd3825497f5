package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/internal/schema/strict"
	"github.com/portico-run/portico/modules/model"
)

// Tool is something a model may call.
type Tool struct {
	Name        string
	Description string
	// Schema describes the arguments, an object.
	Schema json.RawMessage
	// Own says that the schema is ours and must be in the strict subset as it
	// is; a foreign one is fitted to it as far as it goes.
	Own bool
	// Serial tools change the same things: they run one after the other, in the
	// order of their calls.
	Serial bool
	// Ends says that a call which works is the last thing of the turn, and its
	// output the answer. It is executed after all others of the same answer.
	Ends bool
	// Run executes one call. Its error is told to the model.
	Run func(ctx context.Context, c Call) (string, error)

	toolset, method string                                                            // what its calls are recorded as
	work            func(ctx context.Context, arguments json.RawMessage) (any, error) // of a builtin
}

// Call is one call of a model. Arguments are an object that the tool's schema
// takes.
type Call struct {
	ID        string // the provider's
	Name      string
	Arguments json.RawMessage

	record *string
}

// Recorded says under which id the whole result of the call is kept, so that
// the model can read what it is not given.
func (c Call) Recorded(id string) { *c.record = id }

// Tools are what a model may call. They do not change; a run may get others.
type Tools struct {
	list   []*entry
	byName map[string]*entry
	// Notes say of which tools the model gets a looser description, and why.
	Notes []string
}

type entry struct {
	Tool
	definition model.Tool
	schema     strict.Schema
	check      *jsonschema.Schema
}

// maxToolName is the longest name that providers take.
const maxToolName = 64

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// errSchema is a schema that nobody could check arguments against.
var errSchema = errors.New("its schema is no JSON Schema")

// NewTools checks and prepares tools. It fails on a tool that no provider would
// take. A foreign one whose schema is none is left out, with a note, so that it
// does not cost the run.
func NewTools(list ...Tool) (*Tools, error) {
	t := &Tools{byName: map[string]*entry{}}
	for _, tool := range list {
		e, err := prepare(tool)
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
		if e.schema.Reason != "" {
			t.Notes = append(t.Notes, fmt.Sprintf("%s is not strict: %s", tool.Name, e.schema.Reason))
		}
		t.list, t.byName[tool.Name] = append(t.list, e), e
	}
	return t, nil
}

func prepare(tool Tool) (*entry, error) {
	switch {
	case !toolName.MatchString(tool.Name):
		return nil, errors.New("its name must be 1 to 64 letters, digits, - or _")
	case strings.TrimSpace(tool.Description) == "":
		return nil, errors.New("it has no description")
	case tool.Run == nil:
		return nil, errors.New("nothing executes it")
	}
	e := &entry{Tool: tool}
	if tool.Own {
		if err := strict.Verify(tool.Schema); err != nil {
			return nil, err
		}
		e.schema = strict.Schema{Parameters: tool.Schema, Strict: true}
	} else {
		e.schema = strict.Convert(tool.Schema)
	}
	check, err := jsonschema.Compile(tool.Schema)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSchema, err)
	}
	e.check = check
	e.definition = model.Tool{
		Type: "function", Name: tool.Name, Description: tool.Description, Parameters: e.schema.Parameters, Strict: e.schema.Strict,
	}
	return e, nil
}

// Definitions are what the model is told.
func (t *Tools) Definitions() []model.Tool {
	list := make([]model.Tool, len(t.list))
	for i, e := range t.list {
		list[i] = e.definition
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
	if strings.TrimSpace(text) == "" {
		text = "{}" // some models leave it out where there are no parameters
	}
	raw, err := e.schema.Restore(json.RawMessage(text))
	var object map[string]any
	if err == nil {
		err = decode(raw, &object)
	}
	if err != nil {
		return nil, fmt.Errorf("the arguments are not valid JSON (%v); send one JSON object", err) //nolint:errorlint // a sentence for the model, not a chain
	}
	if object == nil {
		return nil, errors.New("the arguments must be a JSON object")
	}
	if problems := e.check.Check(object); len(problems) > 0 {
		lines := make([]string, len(problems))
		for i, p := range problems {
			lines[i] = p.String()
		}
		return nil, errors.New("the arguments do not fit: " + strings.Join(lines, "; "))
	}
	return json.Marshal(object) // with the defaults of the schema
}

func decode(raw json.RawMessage, into *map[string]any) error {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

// alias lets a tool be called by another name as well, which the model is not
// told.
func (t *Tools) alias(name, of string) {
	if e := t.byName[of]; e != nil && t.byName[name] == nil {
		t.byName[name] = e
	}
}

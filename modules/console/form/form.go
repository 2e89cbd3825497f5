// Package form makes HTML forms of JSON Schemas and of the items of toolsets,
// and JSON of what such a form posts. It needs no JavaScript.
//
// Each place of a schema becomes the input that fits it. What has none, such as
// alternatives and objects deeper than three, is written as JSON. An input left
// empty is a member that is left out; "send it empty" sends "", [] or {}.
package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/internal/schema/jsontree"
)

// Form is a form for one JSON object.
type Form struct {
	root   *node
	schema *jsonschema.Schema // nil: whoever is sent the object checks it
}

// New makes the form of an object's JSON Schema.
func New(schema json.RawMessage) (*Form, error) {
	compiled, err := jsonschema.Compile(schema)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	tree, err := jsontree.Parse(schema)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	root, ok := tree.(*jsontree.Object)
	if !ok {
		return nil, errors.New("the schema is no object")
	}
	return &Form{root: reader{document: root}.form(root), schema: compiled}, nil
}

// Problem is what is wrong with one field.
type Problem struct {
	// Path names the field as jsonschema.Problem does; empty for the whole.
	Path    string
	Message string
}

// Read makes the object that a posted form means, with its members in the order
// of the schema, and says what is wrong with it. Numbers are as they were typed.
func (f *Form) Read(posted url.Values) (json.RawMessage, []Problem) {
	r := &posts{values: posted}
	value, _ := r.value(f.root)
	if value == nil {
		value = jsontree.NewObject()
	}
	text, err := jsontree.Encode(value)
	if err != nil {
		return nil, []Problem{{Message: "cannot be written as JSON"}}
	}
	if f.schema == nil {
		return text, r.problems
	}
	return text, f.check(text, r.problems)
}

// check adds what the schema says to what could not be read. A field that could
// not be read is missing in the object, which is no news.
func (f *Form) check(text []byte, found []Problem) []Problem {
	var object map[string]any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&object); err != nil {
		return append(found, Problem{Message: "must be a JSON object"})
	}
	unread := map[string]bool{}
	for _, p := range found {
		unread[p.Path] = true
	}
	for _, p := range f.schema.Check(object) {
		if !unread[p.Path] {
			found = append(found, Problem{p.Path, p.Message})
		}
	}
	return found
}

// Kinds of inputs.
const (
	kindLine    = "line"    // a text of one line
	kindText    = "text"    // a text of any number of lines
	kindSecret  = "secret"  // a text that is never shown again
	kindDate    = "date"    //
	kindNumber  = "number"  //
	kindBoolean = "boolean" // yes, no, or nothing
	kindChoice  = "choice"  // one of several values
	kindChoices = "choices" // some of several values
	kindList    = "list"    // numbers or texts, one a line
	kindObject  = "object"  // a group of fields
	kindJSON    = "json"    // written as JSON
)

// node is one place of the object.
type node struct {
	name, path  string // as in problems
	field       string // the path in names of inputs
	kind        string
	label       string
	description string
	hints       []string // rules in words
	required    bool
	nothing     string  // what it means to leave a choice open
	options     []value // of choices
	numbers     bool    // a list of numbers
	empty       bool    // it may be sent empty, which is not leaving it out
	members     []*node
	rest        bool // an object with members that the schema does not name
}

// value is one choice: its JSON, and how it is shown.
type value struct{ json, label string }

// Prefixes of the names of inputs, before the path of the place.
const (
	inField = "f" // what was typed
	inJSON  = "j" // the same place as JSON, for values that its input cannot hold
	inEmpty = "e" // send it empty
	inRest  = "r" // members that the schema does not name, as a JSON object
)

func (n *node) input(prefix string) string { return prefix + n.field }

// walk visits the fields in order, groups before what is in them.
func (n *node) walk(visit func(*node)) {
	visit(n)
	for _, m := range n.members {
		m.walk(visit)
	}
}

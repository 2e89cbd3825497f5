package offer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/failure"
)

// function is a tool of that type.
type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
	Callers     []string        `json:"allowed_callers"`
	Output      json.RawMessage `json:"output_schema"`
	Deferred    bool            `json:"defer_loading"`
	Async       bool            `json:"async"`
}

// namespace is a tool of that type.
type namespace struct {
	Name  string            `json:"name"`
	Tools []json.RawMessage `json:"tools"`
}

func (r *reading) namespace(at string, raw json.RawMessage) error {
	var n namespace
	if err := json.Unmarshal(raw, &n); err != nil {
		return failure.Invalid(at, "The namespace cannot be read: name is a text, tools a list.")
	}
	if !pattern.MatchString(n.Name) {
		return failure.Invalid(at+".name", "The name of a namespace must be 1 to 64 letters, digits, - or _.")
	}
	for i, one := range n.Tools {
		inner := fmt.Sprintf("%s.tools[%d]", at, i)
		var head struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(one, &head) != nil || head.Type != functionType {
			return failure.New(errs.Invalid, inner+".type", failure.UnsupportedValue, "A namespace has tools of type function only, on this server.")
		}
		if err := r.function(inner, n.Name, one); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) function(at, namespace string, raw json.RawMessage) error {
	var f function
	if err := json.Unmarshal(raw, &f); err != nil {
		return failure.Invalid(at, "The function cannot be read: name and description are texts, parameters and output_schema objects, allowed_callers a list.")
	}
	name := Inside(namespace, f.Name)
	switch {
	case f.Name == "":
		return failure.New(errs.Invalid, at+".name", failure.Missing, "Missing required parameter: '%s.name'.", at)
	case !pattern.MatchString(f.Name) || !pattern.MatchString(name):
		return failure.Invalid(at+".name", "Invalid '%s.name': with its namespace it must be 1 to 64 letters, digits, - or _.", at)
	case f.Deferred:
		return failure.Unsupported(at+".defer_loading", "Functions cannot be loaded later here: there is no tool_search.").Do("Leave defer_loading out.")
	case f.Async:
		return failure.Unsupported(at+".async", "Outputs cannot come later here.").Do("Leave async out.")
	}
	if other, twice := r.out.names[name]; twice {
		return failure.Invalid(at+".name", "The functions %s and %s of these tools would both be called %s.", written(other), written(Name{Namespace: namespace, Name: f.Name}), name)
	}
	viaModel, viaPrograms, err := callers(at, f.Callers)
	if err != nil {
		return err
	}
	schema, err := objectSchema(at+".parameters", f.Parameters)
	if err != nil {
		return err
	}
	output, err := anySchema(at+".output_schema", f.Output)
	if err != nil {
		return err
	}
	r.out.names[name] = Name{Namespace: namespace, Name: f.Name, Described: output != nil}
	r.out.Tools = append(r.out.Tools, dialogue.Tool{
		Name: name, Description: f.Description, Schema: schema, Output: output, Direct: viaModel, Code: viaPrograms,
		Strict: f.Strict == nil || *f.Strict, // the vendor's rule: docs/wire/openai.md#tools
	})
	return nil
}

func written(n Name) string {
	if n.Namespace == "" {
		return n.Name
	}
	return n.Namespace + "." + n.Name
}

// callers reads allowed_callers; left out it is the model alone.
func callers(at string, list []string) (viaModel, viaPrograms bool, err error) {
	if list == nil {
		return true, false, nil
	}
	for _, c := range list {
		if c != direct && c != programs {
			return false, false, failure.Invalid(at+".allowed_callers", "allowed_callers has direct and programmatic, not %q.", c)
		}
	}
	if len(list) == 0 {
		return false, false, failure.Invalid(at+".allowed_callers", "allowed_callers is empty: nothing could call the tool.")
	}
	return slices.Contains(list, direct), slices.Contains(list, programs), nil
}

// objectSchema is the schema of parameters; without one there are none.
func objectSchema(at string, raw json.RawMessage) (json.RawMessage, error) {
	schema, err := anySchema(at, raw)
	if err != nil {
		return nil, err
	}
	if schema == nil {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	var top struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(schema, &top) != nil || top.Type != "object" {
		return nil, failure.Invalid(at, `Invalid schema: parameters must be a JSON Schema of type "object".`)
	}
	return schema, nil
}

func anySchema(at string, raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case raw[0] != '{':
		return nil, failure.Invalid(at, "A schema must be an object.")
	case len(raw) > maxSchema:
		return nil, failure.Invalid(at, "A schema may have %d bytes; this one has %d.", maxSchema, len(raw))
	}
	return raw, nil
}

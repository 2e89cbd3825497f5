package function

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/modules/ptc"
)

// Registry is the functions of one server. It never changes.
type Registry struct{ functions []Function }

// nameForm is what every language of programs takes as the name of a function.
var nameForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)

// NewRegistry checks functions and keeps them in their order. The error names
// every one that cannot be registered, and why.
func NewRegistry(functions ...Function) (*Registry, error) {
	var wrong []string
	seen := map[string]bool{}
	for _, f := range functions {
		if reason := f.problem(); reason != "" {
			wrong = append(wrong, fmt.Sprintf("function %q %s", f.Name, reason))
		}
		if seen[f.Name] {
			wrong = append(wrong, fmt.Sprintf("function %q is registered twice", f.Name))
		}
		seen[f.Name] = true
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("functions of the server: %s", strings.Join(wrong, "; "))
	}
	return &Registry{functions}, nil
}

// problem is why a function cannot be registered; empty where it can.
func (f Function) problem() string {
	switch {
	case !nameForm.MatchString(f.Name):
		return "must be named by up to 64 letters, digits and underscores, and not begin with a digit"
	case ptc.NeverFromCode(f.Name):
		return ptc.WhyNeverFromCode
	case strings.TrimSpace(f.Description) == "":
		return "has no description"
	case f.Run == nil:
		return "does nothing"
	case f.SandboxCallable && !f.ReadOnly && !f.Idempotent:
		return "may be called from code only if it only reads, or if calling it twice is calling it once"
	}
	var schema struct{ Type string }
	if err := json.Unmarshal(f.Input, &schema); err != nil || schema.Type != "object" {
		return "has arguments that are no JSON Schema of an object"
	}
	if _, err := jsonschema.Compile(f.Input); err != nil {
		return "has arguments that are no JSON Schema: " + err.Error()
	}
	return ""
}

// All lists the functions. Nobody changes the list.
func (r *Registry) All() []Function {
	if r == nil {
		return nil
	}
	return r.functions
}

// Find returns the function of a name.
func (r *Registry) Find(name string) (Function, bool) {
	i := slices.IndexFunc(r.All(), func(f Function) bool { return f.Name == name })
	if i < 0 {
		return Function{}, false
	}
	return r.functions[i], true
}

// ForCode lists those that programs may call.
func (r *Registry) ForCode() []Function {
	var list []Function
	for _, f := range r.All() {
		if f.SandboxCallable {
			list = append(list, f)
		}
	}
	return list
}

package file

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/internal/schema/shared"
)

// maxSchemas bounds how many schemas the tools of a toolset share.
const maxSchemas = 10_000

var schemaForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}(![0-9]{1,6})?$`)

// sharedSchemas reads the schemas that the tools of a toolset share; nil where
// there are none. What they refer to is looked for when all are read.
func (c *checker) sharedSchemas(trees map[string]tree) shared.Schemas {
	if len(trees) == 0 {
		return nil
	}
	out := make(shared.Schemas, len(trees))
	names := slices.Sorted(maps.Keys(trees))
	if first := trees[names[0]].node; len(names) > maxSchemas {
		c.problem(first.Line, "there are more than %d schemas", maxSchemas)
		return nil
	}
	for _, name := range names {
		if !schemaForm.MatchString(name) {
			c.problem(trees[name].node.Line, "schema name %q must be up to 128 letters, digits, and _ . -", name)
		}
		raw, err := toJSON(trees[name].node)
		if err != nil {
			c.problem(trees[name].node.Line, "schema %s: %s", name, err)
			raw = json.RawMessage(`{}`)
		}
		out[name] = raw
	}
	for _, name := range names {
		refs, err := compilesAlone(out[name])
		for _, ref := range refs {
			if err == nil {
				_, err = out.Find(ref)
			}
		}
		if err != nil {
			c.problem(trees[name].node.Line, "schema %s is not a valid JSON Schema: %s", name, strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
	return out
}

// compiles checks a schema of a method and, where the toolset has schemas that
// its methods share, leaves it written out in the buffer.
func (c *checker) compiles(raw json.RawMessage) error {
	if c.schemas == nil {
		_, err := jsonschema.Compile(raw)
		return err
	}
	if c.compiled[string(raw)] && !shared.IsReference(raw) {
		return nil
	}
	_, err := compilesAlone(raw)
	c.compiled[string(raw)] = err == nil
	if err == nil {
		c.buffer, err = c.schemas.Expand(c.buffer[:0], raw)
	}
	return err
}

// compilesAlone compiles a schema without those that it refers to, which are
// compiled themselves, and returns the references.
func compilesAlone(raw json.RawMessage) (refs []string, err error) {
	without, refs, err := shared.References(raw)
	if err != nil {
		return nil, err
	}
	_, err = jsonschema.Compile(without)
	return refs, err
}

package jsonschema

import "strings"

// filler puts the defaults of a schema into values.
type filler struct {
	root  any
	meter *meter
}

// maxDepth bounds how deep defaults are looked for; schemas may refer to
// themselves.
const maxDepth = 32

// object fills the missing members of value. A member that is null counts as
// missing when its schema has a default: docs/wire/refly.md#config-based-requests.
func (f filler) object(schema any, value map[string]any, depth int) error {
	node, ok := f.resolve(schema)
	if !ok || depth > maxDepth {
		return nil
	}
	properties, _ := node["properties"].(map[string]any)
	for name, sub := range properties {
		if err := f.meter.spend(1); err != nil {
			return err
		}
		member, ok := f.resolve(sub)
		if !ok {
			continue
		}
		present := value[name] != nil
		if def, has := member["default"]; has && !present {
			if err := f.meter.spend(values(def)); err != nil {
				return err
			}
			value[name] = clone(def)
			present = def != nil
		}
		var err error
		switch {
		case present:
			err = f.value(member, value[name], depth+1)
		case member["properties"] != nil && !refers(sub):
			err = f.create(member, value, name, depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refers reports whether a schema is a reference. An object that was left out
// is not made from one: the schema may contain itself.
func refers(schema any) bool {
	node, _ := schema.(map[string]any)
	return node["$ref"] != nil
}

func (f filler) value(schema map[string]any, value any, depth int) error {
	switch v := value.(type) {
	case map[string]any:
		return f.object(schema, v, depth)
	case []any:
		for _, item := range v {
			if o, ok := item.(map[string]any); ok {
				if err := f.object(schema["items"], o, depth+1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// create makes an object that was left out, if its defaults alone make a
// whole one: an optional object with required members stays left out.
func (f filler) create(schema, parent map[string]any, name string, depth int) error {
	if _, explicit := parent[name]; explicit {
		return nil // null, and no default says otherwise
	}
	object := map[string]any{}
	if err := f.object(schema, object, depth+1); err != nil || len(object) == 0 {
		return err
	}
	required, _ := schema["required"].([]any)
	for _, r := range required {
		if r, ok := r.(string); ok && object[r] == nil {
			return nil
		}
	}
	parent[name] = object
	return nil
}

// resolve follows references within the document.
func (f filler) resolve(schema any) (map[string]any, bool) {
	for range maxDepth {
		node, ok := schema.(map[string]any)
		if !ok {
			return nil, false
		}
		ref, ok := node["$ref"].(string)
		if !ok {
			return node, true
		}
		pointer, ok := strings.CutPrefix(ref, "#")
		if !ok {
			return nil, false
		}
		f.meter.left -= len(ref) / 64 // short ones cost nothing
		schema = f.root
		for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
			if token == "" {
				continue
			}
			parent, ok := schema.(map[string]any)
			if !ok {
				return nil, false
			}
			schema = parent[strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")]
		}
	}
	return nil, false
}

// clone copies a decoded value, so that no caller changes the schema.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = clone(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = clone(item)
		}
		return out
	}
	return v
}

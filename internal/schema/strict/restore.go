package strict

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

// Restore gives arguments that a model wrote for a converted schema the form
// that the tool expects: null, where it stands for a property that was left
// out, is left out. So is an empty text for an optional text, because models
// are told to send one for what they do not need; unless the schema says that
// an empty text means something: it lists "" as a value, or sets minLength to 0.
// Arguments for a schema that is not strict stay as they are. It fails if the
// arguments are not JSON.
func (s Schema) Restore(arguments json.RawMessage) (json.RawMessage, error) {
	if s.shape == nil {
		return arguments, nil
	}
	v, err := jsontree.Parse(arguments)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	s.restore(s.shape, v)
	return jsontree.Encode(v)
}

func (s Schema) restore(at *shape, v any) {
	for at != nil && at.ref != "" {
		if at.ref == "#" {
			at = s.shape
		} else {
			at = s.defs[at.ref]
		}
	}
	if at == nil {
		return
	}
	if at.any != nil {
		s.restore(s.choose(at.any, v), v)
		return
	}
	switch v := v.(type) {
	case *jsontree.Object:
		for _, name := range slices.Clone(v.Names()) {
			m, known := at.members[name]
			switch {
			case !known:
			case m.optional && v.Get(name) == nil, m.blank && v.Get(name) == "":
				v.Delete(name)
			default:
				s.restore(m.shape, v.Get(name))
			}
		}
	case []any:
		for _, item := range v {
			s.restore(at.items, item)
		}
	}
}

// choose finds the alternative that a value was written for. For an object it is
// the first whose properties include all members and whose required ones are there.
func (s Schema) choose(list []*shape, v any) *shape {
	for _, at := range list {
		resolved := at
		for resolved != nil && resolved.ref != "" {
			if resolved.ref == "#" {
				resolved = s.shape
			} else {
				resolved = s.defs[resolved.ref]
			}
		}
		if resolved == nil {
			continue
		}
		switch v := v.(type) {
		case *jsontree.Object:
			if resolved.members == nil {
				continue
			}
			unknown := slices.ContainsFunc(v.Names(), func(n string) bool { _, ok := resolved.members[n]; return !ok })
			lacks := slices.ContainsFunc(resolved.required, func(n string) bool { return !v.Has(n) })
			if !unknown && !lacks {
				return resolved
			}
		case []any:
			if resolved.items != nil {
				return resolved
			}
		}
	}
	return nil
}

package jsonschema

import (
	"errors"

	upstream "github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of one check, in steps: schemas that a value is held against, and values that
// are made of defaults. A short schema whose alternatives refer to each other would
// keep a processor for years otherwise, and fill the memory with what is wrong.
const (
	baseSteps  = 1 << 18
	valueSteps = 32 // more for each value in what is checked
	maxLevels  = 10_000
)

// Why a value is not checked.
var (
	errLong    = errors.New("there are too many ways to read it by its schema; send less at once, or have the schema made simpler")
	errDynamic = errors.New("its schema has $dynamicRef or $recursiveRef, which are not supported: $ref is")
)

// meter counts the steps of a check before it is made, as it goes in the worst case.
type meter struct{ left, level int }

func newMeter(value any) *meter { return &meter{left: baseSteps + valueSteps*values(value)} }

func values(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			n += values(member)
		}
	case []any:
		for _, item := range v {
			n += values(item)
		}
	}
	return n
}

// spend fails where there are not so many steps left.
func (m *meter) spend(n int) error {
	if m.left -= n; m.left < 0 {
		return errLong
	}
	return nil
}

// check counts holding a value against a schema; nil is none.
func (m *meter) check(s *upstream.Schema, value any) error {
	if s == nil {
		return nil
	}
	m.level++
	defer func() { m.level-- }()
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		return errDynamic
	}
	if m.level > maxLevels {
		return errLong
	}
	if err := m.spend(1); err != nil {
		return err
	}
	if err := m.beside(s, value); err != nil {
		return err
	}
	switch value := value.(type) {
	case map[string]any:
		return m.object(s, value)
	case []any:
		return m.list(s, value)
	}
	return nil
}

// all counts schemas that hold for one value.
func (m *meter) all(value any, schemas ...*upstream.Schema) error {
	for _, s := range schemas {
		if err := m.check(s, value); err != nil {
			return err
		}
	}
	return nil
}

// beside counts the schemas within a schema that are for the same value.
func (m *meter) beside(s *upstream.Schema, value any) error {
	if err := m.all(value, s.Ref, s.Not, s.If, s.Then, s.Else); err != nil {
		return err
	}
	for _, list := range [...][]*upstream.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		if err := m.all(value, list...); err != nil {
			return err
		}
	}
	for _, d := range s.DependentSchemas {
		if err := m.check(d, value); err != nil {
			return err
		}
	}
	for _, d := range s.Dependencies {
		if err := m.check(one(d), value); err != nil {
			return err
		}
	}
	return nil
}

func (m *meter) object(s *upstream.Schema, value map[string]any) error {
	for name, member := range value {
		own := s.Properties[name]
		if own == nil {
			own = one(s.AdditionalProperties)
		}
		if err := m.all(member, own, s.UnevaluatedProperties); err != nil {
			return err
		}
		if err := m.check(s.PropertyNames, name); err != nil {
			return err
		}
		for _, pattern := range s.PatternProperties {
			if err := m.check(pattern, member); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *meter) list(s *upstream.Schema, value []any) error {
	places := s.PrefixItems
	if each, ok := s.Items.([]*upstream.Schema); ok {
		places = each
	}
	for i, item := range value {
		own := []*upstream.Schema{s.Contains, s.UnevaluatedItems, s.Items2020, one(s.Items), one(s.AdditionalItems)}
		if i < len(places) {
			own = []*upstream.Schema{s.Contains, s.UnevaluatedItems, places[i]}
		}
		if err := m.all(item, own...); err != nil {
			return err
		}
	}
	return nil
}

// one is the schema in a place that may also hold something else.
func one(schema any) *upstream.Schema {
	s, _ := schema.(*upstream.Schema)
	return s
}

// Package shape describes a JSON value as a Python type, without any value: what
// a model needs to know of a result that it has not seen.
package shape

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

// Limits of a shape: it is read by a model, for orientation.
const (
	maxDepth = 5
	maxItems = 20 // of a list that are looked at
	maxNames = 30
	maxKinds = 3
	maxBytes = 2000
)

// shape is what is known of the values at one place.
type shape struct {
	kinds   []string // of single values, in the order they came
	list    *shape
	names   []string // of members, in the order they came
	members map[string]*shape
	data    bool // names are data: ids, dates, addresses
}

// Of describes a value that jsontree parsed, and, for a list that is whole, how
// many items it has. Names that look like data are left out as values are.
func Of(v any, whole bool) string {
	s := &shape{}
	s.add(v, 0)
	text := s.String()
	if list, ok := v.([]any); ok && whole {
		text += fmt.Sprintf(" (%d items)", len(list))
	}
	if len(text) > maxBytes {
		return map[bool]string{true: "list", false: "dict"}[s.list != nil]
	}
	return text
}

func (s *shape) add(v any, depth int) {
	switch v := v.(type) {
	case nil:
		s.kind("None")
	case bool:
		s.kind("bool")
	case json.Number:
		s.kind(map[bool]string{true: "float", false: "int"}[strings.ContainsAny(v.String(), ".eE")])
	case string:
		s.kind("str")
	case []any:
		if s.list == nil {
			s.list = &shape{}
		}
		for _, item := range v[:min(len(v), maxItems)] {
			if text, ok := item.(string); !ok || !omission.MatchString(text) {
				s.list.deeper(item, depth)
			}
		}
	case *jsontree.Object:
		s.object(v, depth)
	}
}

// omission is what shortening leaves in a list.
var omission = regexp.MustCompile(`^\[\d+ items omitted\]$`)

func (s *shape) deeper(v any, depth int) {
	if depth+1 >= maxDepth {
		s.kind("Any")
		return
	}
	s.add(v, depth+1)
}

func (s *shape) object(o *jsontree.Object, depth int) {
	if s.members == nil {
		s.members = map[string]*shape{}
	}
	for i, name := range o.Names() {
		s.data = s.data || i > maxNames || !plainName.MatchString(name) || digits(name) > 4
		if name == "…" || i > maxNames {
			continue
		}
		member, known := s.members[name]
		if !known {
			member = &shape{}
			s.members[name] = member
			s.names = append(s.names, name)
		}
		member.deeper(o.Get(name), depth)
	}
	s.data = s.data || len(s.names) > maxNames
}

// plainName is a name that somebody chose for a member; e-mails, dates, titles
// and addresses are none.
var plainName = regexp.MustCompile(`^(?:[A-Za-z_$@][A-Za-z0-9_$:-]{0,39}|…)$`)

func digits(name string) (n int) {
	for _, r := range name {
		if r >= '0' && r <= '9' {
			n++
		}
	}
	return n
}

func (s *shape) kind(name string) {
	if !slices.Contains(s.kinds, name) {
		s.kinds = append(s.kinds, name)
	}
}

// String writes the shape as a Python type.
func (s *shape) String() string {
	var parts []string
	if s.list != nil {
		parts = append(parts, "list["+s.list.String()+"]")
	}
	if s.members != nil {
		parts = append(parts, s.dict())
	}
	for _, kind := range s.kinds {
		if kind != "None" {
			parts = append(parts, kind)
		}
	}
	if slices.Contains(s.kinds, "None") {
		parts = append(parts, "None")
	}
	if len(parts) == 0 || len(parts) > maxKinds {
		return "Any"
	}
	return strings.Join(parts, " | ")
}

func (s *shape) dict() string {
	if s.data {
		values := &shape{}
		for _, name := range s.names {
			values.merge(s.members[name])
		}
		return "dict[str, " + values.String() + "]"
	}
	parts := make([]string, len(s.names))
	for i, name := range s.names {
		parts[i] = name + ": " + s.members[name].String()
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// merge adds what is known of another place.
func (s *shape) merge(other *shape) {
	for _, kind := range other.kinds {
		s.kind(kind)
	}
	if other.list != nil {
		if s.list == nil {
			s.list = &shape{}
		}
		s.list.merge(other.list)
	}
	if other.members == nil {
		return
	}
	if s.members == nil {
		s.members = map[string]*shape{}
	}
	s.data = s.data || other.data
	for _, name := range other.names {
		if s.members[name] == nil {
			s.members[name] = &shape{}
			s.names = append(s.names, name)
		}
		s.members[name].merge(other.members[name])
	}
	s.data = s.data || len(s.names) > maxNames
}

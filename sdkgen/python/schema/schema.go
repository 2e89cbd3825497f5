// Package schema reads JSON Schemas and says what they are in Python: their
// properties in order, their types, their literals.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// maxNodes bounds how many nodes one tool's schema is followed through, so that
// references which multiply cannot make generation take for ever. What lies
// beyond is described as Any.
const maxNodes = 20000

// maxDepth bounds how deep schemas are followed: a level deeper than a reader
// of the signatures can use is described as Any.
const maxDepth = 8

// Schema is one JSON Schema node. It keeps the raw text of each keyword, so
// that the order of properties survives.
type Schema struct {
	root     *Schema // what "#" means
	keywords map[string]json.RawMessage
	always   *bool // the node is true or false instead of an object

	// Kept at the root only.
	targets map[string]*Schema // what references were found to mean
	nodes   int                // how many nodes were visited
}

// Parse reads a root schema. Empty text and null mean "no parameters".
func Parse(raw json.RawMessage) (*Schema, error) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		raw = json.RawMessage(`{"type":"object"}`)
	}
	s := &Schema{targets: map[string]*Schema{}}
	s.root = s
	if err := s.decode(raw); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Schema) decode(raw json.RawMessage) error {
	var always bool
	if json.Unmarshal(raw, &always) == nil && string(bytes.TrimSpace(raw)) != "null" {
		s.always = &always
		return nil
	}
	if err := json.Unmarshal(raw, &s.keywords); err != nil {
		return fmt.Errorf("input schema is not a JSON Schema: %w", err)
	}
	return nil
}

// child reads a nested node; text that is no schema reads as {} (anything).
func (s *Schema) child(raw json.RawMessage) *Schema {
	c := &Schema{root: s.root}
	if c.decode(raw) != nil {
		c.keywords = nil
	}
	return c
}

// Node returns the schema under a keyword, or nil.
func (s *Schema) Node(keyword string) *Schema {
	raw, ok := s.keywords[keyword]
	if !ok {
		return nil
	}
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || trimmed[0] == '[' {
		return nil
	}
	return s.child(raw)
}

// List returns the list of schemas under a keyword such as anyOf.
func (s *Schema) List(keyword string) []*Schema {
	var raws []json.RawMessage
	if json.Unmarshal(s.keywords[keyword], &raws) != nil {
		return nil
	}
	list := make([]*Schema, len(raws))
	for i, raw := range raws {
		list[i] = s.child(raw)
	}
	return list
}

// Text returns a keyword that is a string, or "".
func (s *Schema) Text(keyword string) string {
	var v string
	if json.Unmarshal(s.keywords[keyword], &v) != nil {
		return ""
	}
	return v
}

// Keyword returns the raw text of a keyword; nil where there is none.
func (s *Schema) Keyword(name string) json.RawMessage { return s.keywords[name] }

// Anything reports whether the schema is true or false instead of an object.
func (s *Schema) Anything() bool { return s.always != nil }

func (s *Schema) flag(keyword string) bool {
	var v bool
	return json.Unmarshal(s.keywords[keyword], &v) == nil && v
}

func (s *Schema) strings(keyword string) []string {
	var v []string
	if json.Unmarshal(s.keywords[keyword], &v) != nil {
		return nil
	}
	return v
}

// Types returns the type keyword as a list, whichever way it is written.
func (s *Schema) Types() []string {
	if t := s.Text("type"); t != "" {
		return []string{t}
	}
	return s.strings("type")
}

// Resolve follows $ref inside the document. It returns nil for a reference
// that is a cycle of references, leads nowhere, or leads out of the document:
// such a value is Any.
func (s *Schema) Resolve() *Schema {
	if s.root.nodes++; s.root.nodes > maxNodes {
		return nil
	}
	for hops := 0; hops < maxDepth && s != nil; hops++ {
		ref := s.Text("$ref")
		if ref == "" {
			return s
		}
		next, known := s.root.targets[ref]
		if !known {
			next = s.root.lookup(ref)
			s.root.targets[ref] = next
		}
		s = next
	}
	return nil
}

// lookup finds a local JSON pointer such as "#/$defs/Pet" from the root.
func (s *Schema) lookup(ref string) *Schema {
	pointer, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil
	}
	if pointer == "" {
		return s
	}
	steps := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	current, err := json.Marshal(s.keywords)
	if err != nil {
		return nil
	}
	for _, step := range steps {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if current = descend(current, step); current == nil {
			return nil
		}
	}
	return s.child(current)
}

// descend returns the member of an object or the element of a list.
func descend(raw json.RawMessage, step string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil {
		return object[step]
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	for i, item := range list {
		if fmt.Sprint(i) == step {
			return item
		}
	}
	return nil
}

// Property is one named member of an object schema.
type Property struct {
	Name     string
	Node     *Schema
	Also     []*Schema // what other variants say the member is
	Required bool
}

// Properties returns the members an object may have, in schema order, and
// whether it takes others as well. Members of allOf are added; members of
// anyOf and oneOf variants are added too, required only when every variant
// requires them.
func (s *Schema) Properties() (list []Property, open bool) {
	c := collector{index: map[string]int{}}
	c.add(s, 0)
	return c.list, c.open
}

type collector struct {
	list  []Property
	index map[string]int
	open  bool
}

func (c *collector) add(s *Schema, depth int) {
	s = s.Resolve()
	if s == nil || depth > maxDepth {
		return
	}
	required := s.strings("required")
	for _, m := range members(s.keywords["properties"]) {
		c.put(Property{Name: m.name, Node: s.child(m.raw), Required: slices.Contains(required, m.name)})
	}
	for _, name := range required {
		if i, ok := c.index[name]; ok {
			c.list[i].Required = true
		}
	}
	if extra := s.Node("additionalProperties"); extra != nil && (extra.always == nil || *extra.always) {
		c.open = true
	}
	if len(members(s.keywords["patternProperties"])) > 0 {
		c.open = true
	}
	for _, part := range s.List("allOf") {
		c.add(part, depth+1)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		c.addVariants(s.List(keyword), depth)
	}
}

func (c *collector) addVariants(variants []*Schema, depth int) {
	counts := map[string]int{}
	var names []string
	for _, v := range variants {
		one := collector{index: map[string]int{}}
		one.add(v, depth+1)
		c.open = c.open || one.open
		for _, p := range one.list {
			if p.Required {
				counts[p.Name]++
			}
			p.Required = false
			if i, known := c.index[p.Name]; known {
				c.list[i].Also = append(append(c.list[i].Also, p.Node), p.Also...)
				continue
			}
			names = append(names, p.Name)
			c.put(p)
		}
	}
	for _, name := range names {
		c.list[c.index[name]].Required = counts[name] == len(variants)
	}
}

// put adds a property; of two with one name the first describes it.
func (c *collector) put(p Property) {
	if i, known := c.index[p.Name]; known {
		c.list[i].Required = c.list[i].Required || p.Required
		return
	}
	c.index[p.Name] = len(c.list)
	c.list = append(c.list, p)
}

type member struct {
	name string
	raw  json.RawMessage
}

// members decodes an object in the order it is written. A name given twice
// counts once, with its last value, as in every JSON decoder. Anything but an
// object has no members.
func members(raw json.RawMessage) []member {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var list []member
	at := map[string]int{}
	for dec.More() {
		key, err := dec.Token()
		name, isText := key.(string)
		var value json.RawMessage
		if err != nil || !isText || dec.Decode(&value) != nil {
			return nil
		}
		if i, known := at[name]; known {
			list[i].raw = value
			continue
		}
		at[name] = len(list)
		list = append(list, member{name, value})
	}
	return list
}

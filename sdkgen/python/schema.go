package python

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

// schema is one JSON Schema node. It keeps the raw text of each keyword, so
// that the order of properties survives.
type schema struct {
	root     *schema // what "#" means
	keywords map[string]json.RawMessage
	always   *bool // the node is true or false instead of an object

	// Kept at the root only.
	targets map[string]*schema // what references were found to mean
	nodes   int                // how many nodes were visited
}

// parseSchema reads a root schema. Empty text and null mean "no parameters".
func parseSchema(raw json.RawMessage) (*schema, error) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		raw = json.RawMessage(`{"type":"object"}`)
	}
	s := &schema{targets: map[string]*schema{}}
	s.root = s
	if err := s.decode(raw); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *schema) decode(raw json.RawMessage) error {
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
func (s *schema) child(raw json.RawMessage) *schema {
	c := &schema{root: s.root}
	if c.decode(raw) != nil {
		c.keywords = nil
	}
	return c
}

// node returns the schema under a keyword, or nil.
func (s *schema) node(keyword string) *schema {
	raw, ok := s.keywords[keyword]
	if !ok {
		return nil
	}
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || trimmed[0] == '[' {
		return nil
	}
	return s.child(raw)
}

// list returns the list of schemas under a keyword such as anyOf.
func (s *schema) list(keyword string) []*schema {
	var raws []json.RawMessage
	if json.Unmarshal(s.keywords[keyword], &raws) != nil {
		return nil
	}
	list := make([]*schema, len(raws))
	for i, raw := range raws {
		list[i] = s.child(raw)
	}
	return list
}

// text returns a keyword that is a string, or "".
func (s *schema) text(keyword string) string {
	var v string
	if json.Unmarshal(s.keywords[keyword], &v) != nil {
		return ""
	}
	return v
}

func (s *schema) flag(keyword string) bool {
	var v bool
	return json.Unmarshal(s.keywords[keyword], &v) == nil && v
}

func (s *schema) strings(keyword string) []string {
	var v []string
	if json.Unmarshal(s.keywords[keyword], &v) != nil {
		return nil
	}
	return v
}

// types returns the type keyword as a list, whichever way it is written.
func (s *schema) types() []string {
	if t := s.text("type"); t != "" {
		return []string{t}
	}
	return s.strings("type")
}

// resolve follows $ref inside the document. It returns nil for a reference
// that is a cycle of references, leads nowhere, or leads out of the document:
// such a value is Any.
func (s *schema) resolve() *schema {
	if s.root.nodes++; s.root.nodes > maxNodes {
		return nil
	}
	for hops := 0; hops < maxDepth && s != nil; hops++ {
		ref := s.text("$ref")
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
func (s *schema) lookup(ref string) *schema {
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

// property is one named member of an object schema.
type property struct {
	name     string
	node     *schema
	also     []*schema // what other variants say the member is
	required bool
}

// properties returns the members an object may have, in schema order, and
// whether it takes others as well. Members of allOf are added; members of
// anyOf and oneOf variants are added too, required only when every variant
// requires them.
func (s *schema) properties() (list []property, open bool) {
	c := collector{index: map[string]int{}}
	c.add(s, 0)
	return c.list, c.open
}

type collector struct {
	list  []property
	index map[string]int
	open  bool
}

func (c *collector) add(s *schema, depth int) {
	s = s.resolve()
	if s == nil || depth > maxDepth {
		return
	}
	required := s.strings("required")
	for _, m := range members(s.keywords["properties"]) {
		c.put(property{name: m.name, node: s.child(m.raw), required: slices.Contains(required, m.name)})
	}
	for _, name := range required {
		if i, ok := c.index[name]; ok {
			c.list[i].required = true
		}
	}
	if extra := s.node("additionalProperties"); extra != nil && (extra.always == nil || *extra.always) {
		c.open = true
	}
	if len(members(s.keywords["patternProperties"])) > 0 {
		c.open = true
	}
	for _, part := range s.list("allOf") {
		c.add(part, depth+1)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		c.addVariants(s.list(keyword), depth)
	}
}

func (c *collector) addVariants(variants []*schema, depth int) {
	counts := map[string]int{}
	var names []string
	for _, v := range variants {
		one := collector{index: map[string]int{}}
		one.add(v, depth+1)
		c.open = c.open || one.open
		for _, p := range one.list {
			if p.required {
				counts[p.name]++
			}
			p.required = false
			if i, known := c.index[p.name]; known {
				c.list[i].also = append(append(c.list[i].also, p.node), p.also...)
				continue
			}
			names = append(names, p.name)
			c.put(p)
		}
	}
	for _, name := range names {
		c.list[c.index[name]].required = counts[name] == len(variants)
	}
}

// put adds a property; of two with one name the first describes it.
func (c *collector) put(p property) {
	if i, known := c.index[p.name]; known {
		c.list[i].required = c.list[i].required || p.required
		return
	}
	c.index[p.name] = len(c.list)
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

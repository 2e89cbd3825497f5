package form

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

// posts reads the object out of what was posted.
type posts struct {
	values   url.Values
	problems []Problem
}

func (p *posts) wrong(n *node, message string) {
	p.problems = append(p.problems, Problem{n.path, message})
}

// value reads one place; there is false if it is left out.
func (p *posts) value(n *node) (v any, there bool) {
	if text, ok := p.values[n.input(inJSON)]; ok && n.kind != kindJSON {
		return p.json(n, strings.Join(text, ""))
	}
	text := typed(p.values.Get(n.input(inField)))
	switch n.kind {
	case kindObject:
		return p.object(n)
	case kindJSON:
		return p.json(n, text)
	case kindNumber:
		return p.number(n, strings.TrimSpace(text))
	case kindChoice, kindBoolean:
		return p.choice(n, text)
	case kindChoices:
		return p.choices(n)
	case kindList:
		return p.list(n, text)
	}
	if text == "" {
		return "", p.values.Has(n.input(inEmpty))
	}
	return text, true
}

// typed takes the line ends out that browsers put into what people typed.
func typed(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

func (p *posts) object(n *node) (any, bool) {
	object := jsontree.NewObject()
	for _, m := range n.members {
		if v, there := p.value(m); there {
			object.Set(m.name, v)
		}
	}
	there := p.values.Has(n.input(inEmpty))
	if rest := strings.TrimSpace(p.values.Get(n.input(inRest))); rest != "" {
		p.rest(n, object, rest)
		there = true
	}
	return object, there || n.required || object.Len() > 0
}

// rest adds the members that the schema does not name.
func (p *posts) rest(n *node, object *jsontree.Object, text string) {
	v, err := jsontree.Parse([]byte(text))
	more, ok := v.(*jsontree.Object)
	if err != nil || !ok {
		p.wrong(n, `further members must be a JSON object, such as {"name": "value"}`)
		return
	}
	for _, name := range more.Names() {
		if slices.ContainsFunc(n.members, func(m *node) bool { return m.name == name }) {
			p.wrong(n, name+" has a field of its own: fill in that one")
			continue
		}
		object.Set(name, more.Get(name))
	}
}

func (p *posts) json(n *node, text string) (any, bool) {
	if strings.TrimSpace(text) == "" {
		return nil, false
	}
	v, err := jsontree.Parse([]byte(text))
	if err != nil {
		p.wrong(n, `must be JSON, such as "text", 12 or ["a", "b"]: `+err.Error())
		return nil, false
	}
	return v, true
}

// number is a number as JSON writes it.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (p *posts) number(n *node, text string) (any, bool) {
	if text == "" {
		return nil, false
	}
	if !number.MatchString(text) {
		p.wrong(n, "must be a number, such as 12 or 0.5")
		return nil, false
	}
	return exact(text), true
}

func (p *posts) choice(n *node, text string) (any, bool) {
	if text == "" {
		return nil, false
	}
	if !n.has(text) {
		p.wrong(n, "must be one of the choices")
		return nil, false
	}
	return p.json(n, text)
}

func (n *node) has(json string) bool {
	return slices.ContainsFunc(n.options, func(o value) bool { return o.json == json })
}

// choices reads which values are chosen, in their own order.
func (p *posts) choices(n *node) (any, bool) {
	chosen := p.values[n.input(inField)]
	list := []any{}
	for _, text := range chosen {
		if !n.has(text) {
			p.wrong(n, "must be some of the choices")
			return nil, false
		}
		v, _ := p.json(n, text)
		list = append(list, v)
	}
	return list, len(list) > 0 || p.values.Has(n.input(inEmpty))
}

// list reads one item a line. Empty lines are none.
func (p *posts) list(n *node, text string) (any, bool) {
	list := []any{}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if !n.numbers {
			list = append(list, line)
			continue
		}
		v, ok := p.number(n, strings.TrimSpace(line))
		if !ok {
			return nil, false
		}
		list = append(list, v)
	}
	return list, len(list) > 0 || p.values.Has(n.input(inEmpty))
}

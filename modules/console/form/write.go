package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

// exact is a number that keeps its digits.
func exact(text string) json.Number { return json.Number(text) }

// Values are what the inputs hold for an object: Read makes the same object of
// them. What an input cannot hold, such as null or a text with control
// characters, is written as JSON.
func (f *Form) Values(object json.RawMessage) (url.Values, error) {
	values := url.Values{}
	if len(object) == 0 {
		return values, nil
	}
	v, err := jsontree.Parse(object)
	if err != nil {
		return nil, fmt.Errorf("the object: %w", err)
	}
	if _, ok := v.(*jsontree.Object); !ok {
		return nil, errors.New("the value is no object")
	}
	f.root.write(v, values)
	return values, nil
}

// write puts a value into the inputs of its place.
func (n *node) write(v any, to url.Values) {
	if n.kind == kindObject {
		if object, ok := v.(*jsontree.Object); ok {
			n.writeObject(object, to)
			return
		}
	}
	texts, ok := n.inputs(v)
	if !ok {
		encoded, err := jsontree.Encode(v)
		if err != nil {
			return // what was parsed can be written
		}
		prefix := inJSON
		if n.kind == kindJSON {
			prefix = inField
		}
		to.Set(n.input(prefix), string(encoded))
		return
	}
	if len(texts) == 0 {
		to.Set(n.input(inEmpty), "1")
		return
	}
	to[n.input(inField)] = texts
}

func (n *node) writeObject(object *jsontree.Object, to url.Values) {
	rest := jsontree.NewObject()
	for _, name := range object.Names() {
		if i := slices.IndexFunc(n.members, func(m *node) bool { return m.name == name }); i >= 0 {
			n.members[i].write(object.Get(name), to)
		} else {
			rest.Set(name, object.Get(name))
		}
	}
	if rest.Len() > 0 {
		text, err := jsontree.Encode(rest)
		if err == nil { // what was parsed can be written
			to.Set(n.input(inRest), string(text))
		}
	}
	if object.Len() == 0 {
		to.Set(n.input(inEmpty), "1")
	}
}

// inputs are the texts that the input of a place holds for a value; ok is false
// if it cannot hold it.
func (n *node) inputs(v any) (texts []string, ok bool) {
	switch n.kind {
	case kindLine, kindText, kindSecret, kindDate:
		text, is := v.(string)
		if text == "" {
			return nil, is && n.empty
		}
		return []string{text}, is && plain(text, n.kind == kindText)
	case kindNumber:
		digits, is := v.(json.Number)
		return []string{digits.String()}, is
	case kindChoice, kindBoolean:
		text, err := jsontree.Encode(v)
		return []string{string(text)}, err == nil && n.has(string(text))
	case kindChoices:
		return n.chosen(v)
	case kindList:
		return n.lines(v)
	}
	return nil, false
}

// plain reports whether a browser gives a text back as it got it.
func plain(text string, lines bool) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < ' ' && r != '\t' && (r != '\n' || !lines)) || r == 0x7f || r == utf8.RuneError
	})
}

// chosen are the values of a list; they must be in the order of the choices.
func (n *node) chosen(v any) ([]string, bool) {
	list, ok := v.([]any)
	if !ok || (len(list) == 0 && !n.empty) {
		return nil, false
	}
	var texts []string
	next := 0
	for _, item := range list {
		text, err := jsontree.Encode(item)
		i := slices.IndexFunc(n.options[next:], func(o value) bool { return o.json == string(text) })
		if err != nil || i < 0 {
			return nil, false
		}
		texts = append(texts, string(text))
		next += i + 1
	}
	return texts, true
}

func (n *node) lines(v any) ([]string, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	if len(list) == 0 {
		return nil, n.empty
	}
	lines := make([]string, len(list))
	for i, item := range list {
		switch item := item.(type) {
		case string:
			if n.numbers || strings.TrimSpace(item) == "" || !plain(item, false) {
				return nil, false
			}
			lines[i] = item
		case json.Number:
			if !n.numbers {
				return nil, false
			}
			lines[i] = item.String()
		default:
			return nil, false
		}
	}
	return []string{strings.Join(lines, "\n")}, true
}

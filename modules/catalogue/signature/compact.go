// Package signature shows a tool to a model as one line of Python, a signature and
// the first sentence of the description, which takes few prompt tokens.
//
//	read(file_path: str) -> str  # Read a file.
//
// A parameter that may be left out has a question mark, and so has a member of
// an object that may be absent. Names that are no Python identifiers are passed
// in a dict, and shown so. What is not known is Any.
package signature

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/schema/jsontree"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
)

// Tool is what is known about a tool. The schemas are JSON Schemas of objects,
// or nothing.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema"`
}

// maxSentence is the longest comment, in characters.
const maxSentence = 120

// Line writes a tool as one line. Name is the function's, empty for the one
// that programs find it under.
func Line(name string, t Tool) string {
	line := Signature(name, t)
	if text := Comment(t); text != "" {
		line += "  # " + text
	}
	return line
}

// Comment is the first sentence of a tool's description; empty where it says no
// more than the name does.
func Comment(t Tool) string {
	text := Sentence(t.Description)
	if echoes(text, t.Name) {
		return ""
	}
	return text
}

// echoes reports whether a sentence says no more than the name does.
func echoes(sentence, name string) bool {
	known := words.FindAllString(name, -1)
	for i, w := range known {
		known[i] = strings.ToLower(w)
	}
	for _, w := range words.FindAllString(sentence, -1) {
		w = strings.ToLower(w)
		if !slices.Contains([]string{"a", "an", "the"}, w) && !slices.Contains(known, w) {
			return false
		}
	}
	return true
}

// Signature writes a tool without its description.
func Signature(name string, t Tool) string {
	if name == "" {
		name = stub.Name(sandbox.Python, t.Name)
	}
	return name + "(" + parameters(t.Input) + ") -> " + Result(t.Output)
}

// parameters come with those that are required first, otherwise as written.
func parameters(schema json.RawMessage) string {
	root := object(schema)
	if root == nil {
		return ""
	}
	t := newTyper(root)
	node, _ := t.resolve(root)
	if node == nil {
		return "**Any"
	}
	properties := node.Object("properties")
	if properties == nil || properties.Len() == 0 {
		if more := node.Object("additionalProperties"); more != nil || node.Get("additionalProperties") == true {
			return "**Any"
		}
		return ""
	}
	needed := required(node)
	var first, rest, odd []string
	for _, name := range properties.Names() {
		must := needed[name]
		of := t.of(properties.Get(name), 0)
		switch {
		case name == stub.FileTitle: // it has a default
		case !Identifier(name) && must:
			odd = append(odd, quote(name)+":"+of)
		case !Identifier(name):
			odd = append(odd, quote(name)+"?:"+of)
		case must:
			first = append(first, name+": "+of)
		default:
			rest = append(rest, name+"?: "+of)
		}
	}
	all := append(first, rest...)
	if len(odd) > 0 {
		all = append(all, "**{"+strings.Join(odd, ",")+"}")
	}
	return strings.Join(all, ", ")
}

// Types are those of the parameters of a schema, as Signature writes them.
func Types(schema json.RawMessage) map[string]string {
	types := map[string]string{}
	root := object(schema)
	if root == nil {
		return types
	}
	t := newTyper(root)
	node, _ := t.resolve(root)
	if node == nil || node.Object("properties") == nil {
		return types
	}
	properties := node.Object("properties")
	for _, name := range properties.Names() {
		types[name] = t.of(properties.Get(name), 0)
	}
	return types
}

func object(schema json.RawMessage) *jsontree.Object {
	if len(schema) == 0 {
		return nil
	}
	v, err := jsontree.Parse(schema)
	if err != nil {
		return nil
	}
	o, _ := v.(*jsontree.Object)
	return o
}

var (
	words          = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\x00-\x7f]+`)
	identifierForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// sentenceEnd is where a first sentence ends: not after an abbreviation of
	// one letter, as in e.g.
	sentenceEnd = regexp.MustCompile(`[^.\s][^.\s][.!?](\s|$)`)
)

// Identifier reports whether Python takes a name as that of a parameter.
func Identifier(name string) bool {
	return identifierForm.MatchString(name) && stub.Name(sandbox.Python, name) == name
}

func key(name string) string {
	if Identifier(name) {
		return name
	}
	return quote(name)
}

// Sentence is the first sentence of a text, on one line and not too long.
func Sentence(text string) string {
	text = strings.TrimSpace(text)
	// A first paragraph without a full stop is a sentence, too.
	if paragraph, _, found := strings.Cut(text, "\n\n"); found {
		text = paragraph
	}
	text = strings.Join(strings.Fields(text), " ")
	if end := sentenceEnd.FindStringIndex(text); end != nil {
		text = strings.TrimSpace(text[:end[1]])
	}
	text = strings.TrimSuffix(text, ".")
	if utf8.RuneCountInString(text) <= maxSentence {
		return text
	}
	cut := string([]rune(text)[:maxSentence-1])
	if space := strings.LastIndexByte(cut, ' '); space > maxSentence/2 {
		cut = cut[:space]
	}
	return cut + "…"
}

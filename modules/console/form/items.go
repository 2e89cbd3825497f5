package form

import (
	"encoding/json"
	"fmt"

	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/internal/schema/jsontree"
)

// Item is one thing that a toolset asks for when it is installed, as the API
// describes it.
type Item struct {
	Key             string            `json:"key"`
	InputMode       string            `json:"inputMode"`
	Required        bool              `json:"required"`
	LabelDict       map[string]string `json:"labelDict"`
	DescriptionDict map[string]string `json:"descriptionDict"`
	DefaultValue    json.RawMessage   `json:"defaultValue"`
	InputProps      *struct {
		Min, Max, Step *json.Number
	} `json:"inputProps"`
	Options []struct {
		Value     string            `json:"value"`
		LabelDict map[string]string `json:"labelDict"`
	} `json:"options"`
}

// Secrets says whether what is typed as text is a credential, which is never
// shown again.
type Secrets bool

// OfItems makes the form of a toolset's items. The object is checked by the API
// alone.
func OfItems(items []Item, secrets Secrets) *Form {
	root := &node{kind: kindObject, label: "Settings", required: true}
	for _, i := range items {
		root.members = append(root.members, i.node(secrets))
	}
	return &Form{root: root}
}

func (i Item) node(secrets Secrets) *node {
	path := []string{i.Key}
	n := &node{
		name: i.Key, path: jsonschema.Path(path), field: field(path), required: i.Required,
		label: words(i.LabelDict, i.Key), description: words(i.DescriptionDict, ""),
	}
	if len(i.DefaultValue) > 0 {
		if v, err := jsontree.Parse(i.DefaultValue); err == nil && v != nil {
			n.nothing = "default: " + shown(v)
		}
	}
	for _, o := range i.Options {
		text, _ := jsontree.Encode(o.Value) // a text can always be written
		n.options = append(n.options, value{json: string(text), label: words(o.LabelDict, o.Value)})
	}
	switch i.InputMode {
	case "number":
		n.kind = kindNumber
		i.limits(n)
	case "select", "radio":
		n.kind = kindChoice
	case "multiSelect":
		n.kind = kindChoices
	case "switch":
		n.kind, n.options = kindBoolean, []value{{"true", "yes"}, {"false", "no"}}
	case "textarea":
		n.kind = kindText
	default:
		n.kind = kindLine
	}
	if bool(secrets) && (n.kind == kindLine || n.kind == kindText) {
		n.kind = kindSecret
	}
	return n
}

func (i Item) limits(n *node) {
	if i.InputProps == nil {
		return
	}
	for _, rule := range []struct {
		words string
		value *json.Number
	}{{"at least", i.InputProps.Min}, {"at most", i.InputProps.Max}, {"in steps of", i.InputProps.Step}} {
		if rule.value != nil {
			n.hints = append(n.hints, fmt.Sprintf("%s %s", rule.words, *rule.value))
		}
	}
}

// words takes the English of a text in several languages.
func words(dict map[string]string, otherwise string) string {
	if text := dict["en"]; text != "" {
		return text
	}
	return otherwise
}

package install

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Pattern is one way to authenticate for a toolset: docs/wire/refly.md#installing-a-toolset.
type Pattern struct {
	Type            string `json:"type" enum:"credentials,oauth,config_based"`
	CredentialItems []Item `json:"credentialItems,omitempty" nullable:"false"`
	Provider        string `json:"provider,omitempty"`
}

// Item is one thing that a user gives: a part of a credential, or a setting.
type Item struct {
	Key             string            `json:"key"`
	InputMode       string            `json:"inputMode" enum:"text,textarea,number,select,multiSelect,radio,switch"`
	Required        bool              `json:"required,omitempty"`
	LabelDict       map[string]string `json:"labelDict,omitempty"`
	DescriptionDict map[string]string `json:"descriptionDict,omitempty"`
	DefaultValue    any               `json:"defaultValue,omitempty"`
	InputProps      *InputProps       `json:"inputProps,omitempty"`
	Options         []Option          `json:"options,omitempty" nullable:"false"`
}

// InputProps bounds a number.
type InputProps struct {
	Min  *float64 `json:"min,omitempty"`
	Max  *float64 `json:"max,omitempty"`
	Step *float64 `json:"step,omitempty"`
}

// Option is one choice.
type Option struct {
	Value     string            `json:"value"`
	LabelDict map[string]string `json:"labelDict,omitempty"`
}

// checkItems says what is wrong with values for items; nil values are none.
func checkItems(items []Item, values map[string]any) []string {
	var problems []string
	for _, i := range items {
		v, given := values[i.Key]
		switch {
		case !given || v == nil || v == "":
			if i.Required {
				problems = append(problems, i.Key+" is missing")
			}
		default:
			if p := i.check(v); p != "" {
				problems = append(problems, i.Key+" "+p)
			}
		}
	}
	for name := range values {
		if !slices.ContainsFunc(items, func(i Item) bool { return i.Key == name }) {
			problems = append(problems, fmt.Sprintf("%s is not one of: %s", name, strings.Join(keysOf(items), ", ")))
		}
	}
	slices.Sort(problems)
	return problems
}

func keysOf(items []Item) []string {
	keys := make([]string, len(items))
	for n, i := range items {
		keys[n] = i.Key
	}
	return keys
}

// check says what is wrong with one value. It never repeats it.
func (i Item) check(v any) string {
	text, isText := v.(string)
	switch i.InputMode {
	case "text", "textarea":
		if !isText {
			return "must be a text"
		}
		if strings.ContainsRune(text, 0) {
			return "must not hold NUL"
		}
		// One line may go into a header, which carries no such thing.
		if i.InputMode == "text" && strings.ContainsFunc(text, unicode.IsControl) {
			return "must not hold a line break or another control character"
		}
	case "number":
		n, ok := v.(float64)
		if !ok {
			return "must be a number"
		}
		return i.InputProps.check(n)
	case "select", "radio":
		if !isText || !i.offers(text) {
			return "must be one of " + i.choices()
		}
	case "multiSelect":
		list, ok := v.([]any)
		for _, item := range list {
			text, isText := item.(string)
			ok = ok && isText && i.offers(text)
		}
		if !ok {
			return "must be a list of " + i.choices()
		}
	case "switch":
		if _, ok := v.(bool); !ok {
			return "must be true or false"
		}
	default:
		return fmt.Sprintf("has the input mode %q, which this server does not know", i.InputMode)
	}
	return ""
}

func (p *InputProps) check(n float64) string {
	switch {
	case p == nil:
		return ""
	case p.Min != nil && n < *p.Min:
		return fmt.Sprintf("must be at least %v", *p.Min)
	case p.Max != nil && n > *p.Max:
		return fmt.Sprintf("must be at most %v", *p.Max)
	}
	if p.Step == nil || *p.Step <= 0 {
		return ""
	}
	from := 0.0
	if p.Min != nil {
		from = *p.Min
	}
	if steps := (n - from) / *p.Step; math.Abs(steps-math.Round(steps)) > 1e-9 {
		return fmt.Sprintf("must go in steps of %v", *p.Step)
	}
	return ""
}

func (i Item) offers(value string) bool {
	return slices.ContainsFunc(i.Options, func(o Option) bool { return o.Value == value })
}

func (i Item) choices() string {
	values := make([]string, len(i.Options))
	for n, o := range i.Options {
		values[n] = o.Value
	}
	return strings.Join(values, ", ")
}

// Form is what a user gives to install a toolset of the inventory.
type Form struct {
	Patterns []Pattern
	Items    []Item
}

// Former is a toolset.Source that knows what a user gives to install its
// toolsets, where their files do not say it.
type Former interface {
	Form(key string) Form
}

// formOf reads what is given for a toolset: what its file says, else what its
// kind needs.
func (s *Service) formOf(r rows.Inventory) (Form, error) {
	var f Form
	for text, into := range map[string]any{r.AuthPatterns: &f.Patterns, r.ConfigItems: &f.Items} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			return f, toolset.Broken(r.Key, fmt.Errorf("what is given for it: %w", err))
		}
	}
	source, _ := s.kinds.Offered(r.Type, r.Key)
	if former, ok := source.Source.(Former); ok && len(f.Patterns) == 0 {
		usual := former.Form(r.Key)
		f.Patterns = usual.Patterns
		if usual.Items != nil {
			f.Items = usual.Items
		}
	}
	return f, nil
}

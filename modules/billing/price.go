package billing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/modules/internal/money"
)

// PriceList is what the methods of one toolset cost. The zero value prices
// nothing.
type PriceList struct {
	all     *money.Amount // one price for every method
	methods map[string]rule
}

// rule is the price of one method.
type rule struct {
	perCall  money.Amount
	perUnit  money.Amount
	quantity string // argument the units are counted in; empty: per call
	max      *money.Amount
	free     bool
}

// textUnit is how many characters of a text argument are one unit.
const textUnit = 1000

// ParsePrices reads a toolset's billing configuration: one number for every
// method, or an object with a number, {"price": n}, {"credits": n},
// {"creditsPerCall": n} or a full rule for each method (wire contract). A
// method without a price and a price without a method are errors that name
// them: a forgotten price must not become a silent default.
func ParsePrices(raw string, methods []string) (PriceList, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" {
		return PriceList{}, errors.New("there is no price: give a number for all methods, or a price for each")
	}
	if text, ok := scalar(raw); ok {
		amount, err := parseAmount(text)
		return PriceList{all: &amount}, err
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &entries); err != nil {
		return PriceList{}, errors.New("the prices are neither a number nor an object with one entry per method")
	}
	p := PriceList{methods: map[string]rule{}}
	var problems []error
	for _, name := range sortedKeys(entries) {
		r, err := parseRule(entries[name])
		switch {
		case !slices.Contains(methods, name):
			problems = append(problems, fmt.Errorf("there is a price for %q, which is no method of the toolset", name))
		case err != nil:
			problems = append(problems, fmt.Errorf("price of %q: %w", name, err))
		}
		p.methods[name] = r
	}
	for _, m := range methods {
		if _, ok := entries[m]; !ok {
			problems = append(problems, fmt.Errorf("method %q has no price; write 0 for a free one", m))
		}
	}
	return p, errors.Join(problems...)
}

func sortedKeys(m map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// scalar returns the text of a JSON number, or of a string that holds one.
func scalar(raw string) (string, bool) {
	var text string
	if json.Unmarshal([]byte(raw), &text) == nil {
		return text, true
	}
	var n json.Number
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	return raw, d.Decode(&n) == nil
}

func parseAmount(text string) (money.Amount, error) {
	a, err := money.Parse(text)
	if err == nil && a < 0 {
		err = errors.New("a price cannot be negative")
	}
	return a, err
}

type ruleJSON struct {
	Enabled        *bool         `json:"enabled"`
	Type           string        `json:"type"`
	Price          *money.Amount `json:"price"`
	Credits        *money.Amount `json:"credits"`
	CreditsPerCall *money.Amount `json:"creditsPerCall"`
	CreditsPerUnit *money.Amount `json:"creditsPerUnit"`
	QuantityField  string        `json:"quantityField"`
	MaxCredits     *money.Amount `json:"maxCredits"`
}

func parseRule(raw json.RawMessage) (rule, error) {
	if text, ok := scalar(string(raw)); ok {
		amount, err := parseAmount(text)
		return rule{perCall: amount}, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var in ruleJSON
	if err := d.Decode(&in); err != nil {
		return rule{}, fmt.Errorf("not a number and not a rule: %w", err)
	}
	for _, a := range []*money.Amount{in.Price, in.Credits, in.CreditsPerCall, in.CreditsPerUnit, in.MaxCredits} {
		if a != nil && *a < 0 {
			return rule{}, errors.New("a price cannot be negative")
		}
	}
	if in.Enabled != nil && !*in.Enabled {
		return rule{free: true}, nil
	}
	if in.Type == "per_quantity" {
		if in.QuantityField == "" || in.CreditsPerUnit == nil {
			return rule{}, errors.New("per_quantity needs quantityField and creditsPerUnit")
		}
		return rule{perUnit: *in.CreditsPerUnit, quantity: in.QuantityField, max: in.MaxCredits}, nil
	}
	if in.Type != "" && in.Type != "per_call" {
		return rule{}, fmt.Errorf("type %q is not per_call or per_quantity", in.Type)
	}
	for _, a := range []*money.Amount{in.CreditsPerCall, in.Price, in.Credits} {
		if a != nil {
			return rule{perCall: *a, max: in.MaxCredits}, nil
		}
	}
	return rule{}, errors.New("there is no number: write price, credits or creditsPerCall")
}

// Price is what one call of a method costs with these arguments.
func (p PriceList) Price(method string, arguments map[string]any) (money.Amount, error) {
	if p.all != nil {
		return *p.all, nil
	}
	r, ok := p.methods[method]
	if !ok {
		return 0, fmt.Errorf("method %q has no price", method)
	}
	price := r.perCall
	switch {
	case r.free:
		return 0, nil
	case r.quantity != "":
		units, err := quantity(arguments[r.quantity])
		if err != nil {
			return 0, fmt.Errorf("argument %q of method %q: %w", r.quantity, method, err)
		}
		if price, err = money.FromFloat(math.Ceil(units * r.perUnit.Float())); err != nil {
			return 0, err
		}
	}
	if r.max != nil {
		price = min(price, *r.max)
	}
	return price, nil
}

// quantity counts the units in an argument: a number is itself, a text is one
// unit per started thousand characters.
func quantity(v any) (float64, error) {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil || f < 0 {
			return 0, errors.New("not a quantity")
		}
		return f, nil
	case string:
		return math.Ceil(float64(utf8.RuneCountInString(v)) / textUnit), nil
	}
	return 0, errors.New("neither a number nor a text to count units in")
}

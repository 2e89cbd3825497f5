// Package price says what calls cost: by the price list of a toolset, by the
// tiers of a provider, by a formula over arguments and result, and by tokens.
// It keeps nothing.
package price

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/money"
)

// List is what the methods of one toolset cost. The zero value prices
// nothing.
type List struct {
	all      *money.Amount // of every method that has no price of its own
	methods  map[string]rule
	formulas map[string]Formula
}

// Flat is a list with one price for every method, and others for some.
func Flat(all money.Amount, methods map[string]money.Amount) List {
	list := List{all: &all, methods: map[string]rule{}}
	for name, amount := range methods {
		list.methods[name] = rule{perCall: amount}
	}
	return list
}

// Method is a method as far as its price depends on it.
type Method struct {
	Name              string
	Request, Response json.RawMessage // JSON Schemas
	// Rules and TokenPricing are the formula; empty for none.
	Rules, TokenPricing json.RawMessage
}

// rule is the price of one method.
type rule struct {
	perCall  money.Amount
	perUnit  money.Amount
	quantity string // argument the units are counted in; empty: per call
	max      *money.Amount
	free     bool
}

// Most is what a call costs at most by a quantity, a formula or tokens. The arguments
// of a call, which a price may depend on, know no bound. A thousand such prices add up
// to an amount, and SQLite keeps all six decimals of one.
const Most = 1_000_000_000 * money.Credit

// bounded is a computed price, which is not negative, as an amount.
func bounded(credits *big.Rat) (money.Amount, error) {
	if credits.Cmp(Most.Rat()) > 0 {
		return Most, nil
	}
	return money.FromRat(credits)
}

// textUnit is how many characters of a text argument are one unit.
const textUnit = 1000

// ParsePrices reads a toolset's billing configuration: one number for every
// method, or an object with a number, {"price": n}, {"credits": n},
// {"creditsPerCall": n} or a full rule for each method: docs/wire/refly.md#prices.
// A method may have a formula besides, which comes first, or instead. A method
// without a price and a price without a method are errors that name them: a
// forgotten price must not become a silent default.
func (p *Pricer) ParsePrices(raw string, methods []Method) (List, error) {
	list := List{methods: map[string]rule{}, formulas: map[string]Formula{}}
	var problems []error
	for _, m := range methods {
		if len(m.Rules) == 0 {
			continue
		}
		f, err := p.ParseFormula(m.Rules, m.TokenPricing, m.Request, m.Response)
		if err != nil {
			problems = append(problems, fmt.Errorf("pricing of %q: %w", m.Name, err))
		}
		if !f.None() {
			list.formulas[m.Name] = f
		}
	}
	problems = append(problems, list.parse(strings.TrimSpace(raw), methods)...)
	return list, errors.Join(problems...)
}

// parse reads the prices that are no formulas.
func (p *List) parse(raw string, methods []Method) (problems []error) {
	entries := map[string]json.RawMessage{}
	if text, ok := scalar(raw); ok {
		amount, err := parseAmount(text)
		if err != nil {
			return []error{err}
		}
		p.all = &amount
		return nil
	}
	switch {
	case raw == "" && len(p.formulas) == 0:
		return []error{errors.New("there is no price: give a number for all methods, or a price for each")}
	case raw != "" && json.Unmarshal([]byte(raw), &entries) != nil:
		return []error{errors.New("the prices are neither a number nor an object with one entry per method")}
	}
	for _, name := range sortedKeys(entries) {
		r, err := parseRule(entries[name])
		i := slices.IndexFunc(methods, func(m Method) bool { return m.Name == name })
		switch {
		case i < 0:
			problems = append(problems, fmt.Errorf("there is a price for %q, which is no method of the toolset", name))
		case err != nil:
			problems = append(problems, fmt.Errorf("price of %q: %w", name, err))
		case r.quantity != "" && !hasProperty(methods[i].Request, r.quantity):
			problems = append(problems, fmt.Errorf("price of %q: quantityField %q is no parameter of the method", name, r.quantity))
		}
		p.methods[name] = r
	}
	for _, m := range methods {
		_, priced := entries[m.Name]
		if _, formula := p.formulas[m.Name]; !priced && !formula {
			problems = append(problems, fmt.Errorf("method %q has no price; write 0 for a free one", m.Name))
		}
	}
	return problems
}

func hasProperty(schema json.RawMessage, name string) bool {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Properties[name] != nil
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

// Quote is what one call costs.
type Quote struct {
	Price money.Amount
	// Problem is why the formula gave no price; Price is the other one then.
	Problem error
}

// Price is what one call of a method costs with these arguments and this
// result, JSON that may be nil. A formula's price between nothing and one
// credit is one credit.
func (p List) Price(method string, arguments map[string]any, result json.RawMessage) (Quote, error) {
	r, listed := p.methods[method]
	if listed && r.free {
		return Quote{}, nil
	}
	var q Quote
	if f, ok := p.formulas[method]; ok {
		if q.Price, q.Problem = f.quote(arguments, result); q.Problem == nil {
			return q, nil
		}
	}
	switch {
	case listed:
	case p.all != nil:
		q.Price = *p.all
		return q, nil
	default:
		return q, errors.Join(fmt.Errorf("method %q has no price", method), q.Problem)
	}
	price := r.perCall
	if r.quantity != "" {
		units, err := quantity(arguments[r.quantity])
		if err == nil {
			price, err = bounded(ceil(units.Mul(units, r.perUnit.Rat())))
		}
		if err != nil {
			return q, fmt.Errorf("argument %q of method %q: %w", r.quantity, method, err)
		}
	}
	if r.max != nil {
		price = min(price, *r.max)
	}
	q.Price = price
	return q, nil
}

// Listed is what a call of a method costs as far as that is known before its
// arguments are: what varies has no amount. A method without a price is not known.
func (p List) Listed(method string) (amount money.Amount, varies, known bool) {
	r, listed := p.methods[method]
	_, formula := p.formulas[method]
	switch {
	case listed && r.free:
		return 0, false, true
	case formula, listed && r.quantity != "":
		return 0, true, true
	case !listed && p.all == nil:
		return 0, false, false
	case !listed:
		return *p.all, false, true
	case r.max != nil:
		return min(r.perCall, *r.max), false, true
	}
	return r.perCall, false, true
}

// Estimate is the least that a call of a method will cost: what is known of its
// price before its result.
func (p List) Estimate(method string, arguments map[string]any) money.Amount {
	if f, ok := p.formulas[method]; ok && f.needsOutput() {
		return 0
	}
	q, err := p.Price(method, arguments, nil)
	if err != nil {
		return 0
	}
	return q.Price
}

func (f Formula) quote(arguments map[string]any, result json.RawMessage) (money.Amount, error) {
	var output any
	if len(result) > 0 && f.needsOutput() {
		d := json.NewDecoder(bytes.NewReader(result))
		d.UseNumber()
		if err := d.Decode(&output); err != nil {
			return 0, fmt.Errorf("the result is not JSON: %w", err)
		}
	}
	credits, err := f.Price(any(arguments), output)
	if err != nil || credits.Sign() == 0 {
		return 0, err
	}
	if credits.Sign() < 0 {
		return 0, errors.New("the price is negative")
	}
	price, err := bounded(credits)
	return max(price, money.Credit), err
}

// ceil is the least whole number that is not less than r, which is not
// negative.
func ceil(r *big.Rat) *big.Rat {
	n := new(big.Int).Add(r.Num(), r.Denom())
	return new(big.Rat).SetInt(n.Sub(n, big.NewInt(1)).Quo(n, r.Denom()))
}

// quantity counts the units in an argument: a number is itself, a text is one
// unit per started thousand characters.
func quantity(v any) (*big.Rat, error) {
	switch v := v.(type) {
	case json.Number:
		if n := number(v.String()); n.Sign() >= 0 {
			return n, nil
		}
		return nil, errors.New("not a quantity")
	case string:
		return ceil(big.NewRat(int64(utf8.RuneCountInString(v)), textUnit)), nil
	}
	return nil, errors.New("neither a number nor a text to count units in")
}

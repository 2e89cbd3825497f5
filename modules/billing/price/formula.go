package price

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/portico-run/portico/internal/money"
)

// Formula is a price that depends on what goes into a call and what comes out
// of it: rules that add up, and rules that multiply. See
// docs/wire/refly.md#price-formulas.
type Formula struct {
	additive    []formulaRule
	multipliers []formulaRule
	tokens      *tokenPrices
	usd         *big.Rat // credits per dollar
	count       func(text string) (tokens int, err error)
}

// The words of a rule.
const (
	inputPhase  = "input"
	outputPhase = "output"

	textCategory  = "text"
	imageCategory = "image"
	audioCategory = "audio"
	videoCategory = "video"

	countTokens = "tokens"
	countBytes  = "utf8_bytes"
)

// perMillion is how many tokens or bytes of text are one unit.
const perMillion = 1_000_000

type formulaRule struct {
	FieldPath  string        `json:"fieldPath"`
	Phase      string        `json:"phase"`
	Category   string        `json:"category"`
	PerUnit    *exact        `json:"defaultCreditsPerUnit"`
	Tiers      []pricingTier `json:"pricingTiers"`
	UnitField  string        `json:"unitField"`
	UnitPhase  string        `json:"unitPhase"`
	UnitMode   string        `json:"unitMode"`
	Multiplier bool          `json:"isMultiplier"`
	ApplyTo    string        `json:"applyTo"`

	path, unitPath fieldPath
}

type pricingTier struct {
	Value   any    `json:"value"`
	PerUnit *exact `json:"creditsPerUnit"`
}

type tokenPrices struct {
	Input  *exact `json:"inputPer1MUsd"`
	Output *exact `json:"outputPer1MUsd"`
}

// exact is a number of a formula as it is written: a double would make another
// price of it.
type exact struct{ big.Rat }

// UnmarshalJSON reads a JSON number.
func (e *exact) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	r, err := money.ParseRat(string(text))
	if err == nil {
		e.Set(r)
	}
	return err
}

// ParseFormula reads the rules of a method and checks them against its schemas:
// a rule that no call can satisfy is a mistake now, not a wrong price later.
func (p *Pricer) ParseFormula(rules, tokens, request, response json.RawMessage) (Formula, error) {
	f := Formula{usd: p.usd.Rat(), count: p.countTokens}
	var all []formulaRule
	if err := decodeStrict(rules, &all); err != nil {
		return f, fmt.Errorf("the rules are not a list of rules: %w", err)
	}
	if len(tokens) > 0 && string(tokens) != "null" {
		if err := decodeStrict(tokens, &f.tokens); err != nil {
			return f, fmt.Errorf("tokenPricing: %w", err)
		}
		if negative(f.tokens.Input) || negative(f.tokens.Output) {
			return f, errors.New("tokenPricing: a price cannot be negative")
		}
	}
	schemas := map[string]any{}
	for phase, text := range map[string]json.RawMessage{inputPhase: request, outputPhase: response} {
		var schema any
		if err := json.Unmarshal(text, &schema); err != nil {
			return f, fmt.Errorf("Invalid %s schema JSON: %w", phase, err)
		}
		schemas[phase] = schema
	}
	var problems []error
	for i, r := range all {
		if err := r.check(schemas, f.tokens); err != nil {
			problems = append(problems, fmt.Errorf("rule %d: %w", i+1, err))
			continue
		}
		if r.Multiplier {
			f.multipliers = append(f.multipliers, r)
		} else {
			f.additive = append(f.additive, r)
		}
	}
	return f, errors.Join(problems...)
}

func decodeStrict(text json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	d.UseNumber()
	return d.Decode(into)
}

func negative(n *exact) bool { return n != nil && n.Sign() < 0 }

// None reports whether there is no rule.
func (f Formula) None() bool { return len(f.additive)+len(f.multipliers) == 0 }

// needsOutput reports whether the price is known only after the call.
func (f Formula) needsOutput() bool {
	return slices.ContainsFunc(slices.Concat(f.additive, f.multipliers), func(r formulaRule) bool {
		return r.Phase == outputPhase || r.UnitPhase == outputPhase
	})
}

// check completes a rule and says what is wrong with it.
func (r *formulaRule) check(schemas map[string]any, tokens *tokenPrices) (err error) {
	if r.Phase != inputPhase && r.Phase != outputPhase {
		return fmt.Errorf("phase %q is not input or output", r.Phase)
	}
	if r.path, err = parsePath(r.FieldPath); err != nil {
		return err
	}
	if typeAt(schemas[r.Phase], r.path) == "" {
		return fmt.Errorf("Field %q not found in %s schema", r.FieldPath, r.Phase)
	}
	if r.Multiplier {
		return category(r.ApplyTo, "applyTo")
	}
	if err := category(r.Category, "category"); err != nil {
		return err
	}
	if r.UnitPhase == "" {
		r.UnitPhase = r.Phase
	}
	if r.UnitField != "" {
		if r.UnitPhase != inputPhase && r.UnitPhase != outputPhase {
			return fmt.Errorf("unitPhase %q is not input or output", r.UnitPhase)
		}
		if r.unitPath, err = parsePath(r.UnitField); err != nil {
			return err
		}
		if typeAt(schemas[r.UnitPhase], r.unitPath) == "" {
			return fmt.Errorf("unitField %q not found in %s schema", r.UnitField, r.UnitPhase)
		}
	}
	return r.checkPrices(tokens)
}

func category(word, field string) error {
	if slices.Contains([]string{textCategory, imageCategory, audioCategory, videoCategory}, word) {
		return nil
	}
	return fmt.Errorf("%s %q is not text, image, audio or video", field, word)
}

func (r *formulaRule) checkPrices(tokens *tokenPrices) error {
	if len(r.Tiers) > 0 && r.path.wildcards() > 0 {
		return errors.New("pricingTiers not allowed on aggregated field")
	}
	if r.UnitMode == "" {
		r.UnitMode = countTokens
	}
	if r.UnitMode != countTokens && r.UnitMode != countBytes {
		return fmt.Errorf("unitMode %q is not tokens or utf8_bytes", r.UnitMode)
	}
	for _, t := range r.Tiers {
		if t.PerUnit == nil || negative(t.PerUnit) {
			return errors.New("a tier needs creditsPerUnit, which is not negative")
		}
		switch t.Value.(type) {
		case string, json.Number, bool:
		default:
			return errors.New("the value of a tier is a text, a number, true or false")
		}
	}
	byTokens := r.Category == textCategory && tokens != nil
	switch {
	case byTokens && r.Phase == inputPhase && tokens.Input == nil:
		return errors.New("Missing tokenPricing.inputPer1MUsd, which the text of the input is priced by")
	case byTokens && r.Phase == outputPhase && tokens.Output == nil:
		return errors.New("Missing tokenPricing.outputPer1MUsd, which the text of the output is priced by")
	case !byTokens && (r.PerUnit == nil || negative(r.PerUnit)):
		return errors.New("defaultCreditsPerUnit is missing or negative")
	}
	return nil
}

// Price is what a call costs with these arguments and this result, in credits,
// exact. Values are what JSON decodes to, numbers json.Number.
func (f Formula) Price(input, output any) (*big.Rat, error) {
	values := map[string]any{inputPhase: input, outputPhase: output}
	totals := map[string]*big.Rat{textCategory: {}, imageCategory: {}, audioCategory: {}, videoCategory: {}}
	for _, r := range f.additive {
		credits, err := f.add(r, values)
		if err != nil {
			return nil, err
		}
		totals[r.Category].Add(totals[r.Category], credits)
	}
	for _, r := range f.multipliers {
		v, found, err := r.path.value(values[r.Phase], textCategory)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		n, ok := numeric(v)
		switch {
		case !ok:
			return nil, fmt.Errorf("Invalid multiplier value at %q", r.FieldPath)
		case n.Sign() < 0:
			return nil, errors.New("Negative multiplier not allowed")
		}
		totals[r.ApplyTo].Mul(totals[r.ApplyTo], n)
	}
	sum := new(big.Rat)
	for _, total := range totals {
		sum.Add(sum, total)
	}
	return sum, nil
}

// add is what one additive rule comes to.
func (f Formula) add(r formulaRule, values map[string]any) (*big.Rat, error) {
	value, found, err := r.path.value(values[r.Phase], r.Category)
	if err != nil {
		return nil, err
	}
	unit, hasUnit := value, found
	if r.UnitField != "" {
		if unit, hasUnit, err = r.unitPath.value(values[r.UnitPhase], r.Category); err != nil {
			return nil, err
		}
	}
	units := big.NewRat(1, 1)
	if hasUnit {
		if units, err = f.units(r, unit); err != nil {
			return nil, err
		}
	}
	if r.Category == textCategory && f.tokens != nil {
		price := f.tokens.Input
		if r.Phase == outputPhase {
			price = f.tokens.Output
		}
		dollars := new(big.Rat).Mul(units, &price.Rat)
		return dollars.Mul(dollars, f.usd), nil
	}
	perUnit := r.PerUnit
	for _, t := range r.Tiers {
		if found && equalTier(value, t.Value) {
			perUnit = t.PerUnit
			break
		}
	}
	return new(big.Rat).Mul(units, &perUnit.Rat), nil
}

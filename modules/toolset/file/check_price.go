package file

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/toolset"
)

// prices checks what the methods of a toolset cost and returns it as JSON.
func (c *checker) prices(s spec, methods []toolset.Method) json.RawMessage {
	slices.SortFunc(methods, func(a, b toolset.Method) int { return strings.Compare(a.Name, b.Name) })
	if s.Billing.node == nil {
		if slices.ContainsFunc(methods, func(m toolset.Method) bool { return len(m.Rules) == 0 }) {
			c.problem(s.line, "billing is missing: give a number for all methods, or a price for each; 0 is free")
		}
		return nil
	}
	raw, err := toJSON(s.Billing.node)
	if err == nil {
		_, err = c.pricer.ParsePrices(string(raw), toolset.Priced(methods))
	}
	if err != nil {
		for message := range strings.SplitSeq(err.Error(), "\n") {
			c.problem(s.Billing.node.Line, "billing: %s", message)
		}
	}
	return raw
}

// priced is a method as its price is checked: a formula looks into its schemas.
func (c *checker) priced(m toolset.Method) toolset.Method {
	if len(m.Rules) == 0 {
		return m
	}
	return c.whole(m)
}

// whole is a method whose schemas were checked before.
func (c *checker) whole(m toolset.Method) toolset.Method {
	whole, err := m.Whole()
	if err != nil {
		return m
	}
	return whole
}

// providedPrices checks what the tools of a provider cost: nothing said is the
// provider's usual price. Rates are looked for when the file is applied.
func (c *checker) providedPrices(s spec) json.RawMessage {
	if s.Billing.node == nil {
		return nil
	}
	raw, err := toJSON(s.Billing.node)
	if err == nil {
		_, err = c.pricer.ParseProvided(string(raw), &price.Rates{})
	}
	if err != nil {
		c.problem(s.Billing.node.Line, "billing: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return raw
}

// formula reads and checks the price of a method that depends on the call.
func (c *checker) formula(s methodSpec, m toolset.Method) (rules, tokens json.RawMessage) {
	if s.Pricing.node == nil {
		return nil, nil
	}
	var in struct {
		Rules        json.RawMessage `json:"rules"`
		TokenPricing json.RawMessage `json:"tokenPricing"`
	}
	raw, err := toJSON(s.Pricing.node)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		err = d.Decode(&in)
	}
	if err == nil {
		whole := c.whole(m)
		_, err = c.pricer.ParseFormula(in.Rules, in.TokenPricing, whole.Request, whole.Response)
	}
	if err != nil {
		for message := range strings.SplitSeq(err.Error(), "\n") {
			c.problem(s.Pricing.node.Line, "pricing of %q: %s", m.Name, message)
		}
		return nil, nil
	}
	return in.Rules, in.TokenPricing
}

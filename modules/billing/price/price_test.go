package price_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing/price"
)

const credit = money.Credit

func priced(names ...string) []price.Method {
	methods := make([]price.Method, len(names))
	for i, n := range names {
		methods[i] = price.Method{
			Name: n, Request: json.RawMessage(`{"type":"object","properties":{"num":{"type":"number"},"text":{"type":"string"}}}`), Response: json.RawMessage(`{}`),
		}
	}
	return methods
}

func TestPrices(t *testing.T) {
	t.Parallel()
	const rules = `{"a": 2.5, "b": "3", "c": {"price": 4}, "d": {"credits": "0.03588"}, "e": {"creditsPerCall": 6},
		"off": {"enabled": false, "type": "per_call", "creditsPerCall": 9},
		"n": {"enabled": true, "type": "per_quantity", "quantityField": "num", "creditsPerUnit": 3, "maxCredits": 10},
		"t": {"type": "per_quantity", "quantityField": "text", "creditsPerUnit": 1.5}}`
	p, err := price.NewPricer(120*credit).ParsePrices(rules, priced("a", "b", "c", "d", "e", "off", "n", "t"))
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		method, want string
		arguments    map[string]any
	}{
		{"a", "2.5", nil},
		{"b", "3", nil},
		{"c", "4", nil},
		{"d", "0.03588", nil},
		{"e", "6", nil},
		{"off", "0", nil},
		{"n", "6", map[string]any{"num": json.Number("2")}},
		{"n", "10", map[string]any{"num": json.Number("200")}},
		{"t", "3", map[string]any{"text": strings.Repeat("ü", 1001)}},
		{"t", "2", map[string]any{"text": "x"}}, // 1.5 is raised to whole credits
	}
	for _, c := range cases {
		if got, err := p.Price(c.method, c.arguments, nil); err != nil || got.Price.String() != c.want {
			t.Errorf("%s(%v) costs %v, %v, want %s", c.method, c.arguments, got, err, c.want)
		}
	}
	for _, arguments := range []map[string]any{nil, {"num": true}, {"num": json.Number("-1")}} {
		if got, err := p.Price("n", arguments, nil); err == nil {
			t.Errorf("n(%v) costs %v, want an error", arguments, got)
		}
	}
	if _, err := p.Price("unknown", nil, nil); err == nil {
		t.Error("an unknown method has a price")
	}
}

func TestOnePriceForAllMethods(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"3", `"3"`, " 3 "} {
		p, err := price.NewPricer(120*credit).ParsePrices(raw, priced("x"))
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		if got, err := p.Price("x", nil, nil); err != nil || got.Price.String() != "3" {
			t.Errorf("%q: %v, %v", raw, got, err)
		}
	}
}

func TestPriceMistakesAreNamed(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"":                                "no price",
		"[1]":                             "neither a number",
		"-1":                              "negative",
		`{"text-to-image": 16}`:           `"text-to-image"`, // no such method
		`{}`:                              `"m" has no price`,
		`{"m": -2}`:                       "negative",
		`{"m": {"pric": 2}}`:              `"m"`,
		`{"m": {}}`:                       "no number",
		`{"m": {"type": "per_moon"}}`:     "per_moon",
		`{"m": {"type": "per_quantity"}}`: "quantityField",
		`{"m": {"type": "per_quantity", "quantityField": "nums", "creditsPerUnit": 1}}`: `"nums" is no parameter`,
		`{"m": true}`:                         `"m"`,
		`{"m": 1e400}`:                        `"m"`,
		`{"m": {"creditsPerCall": "dozens"}}`: `"m"`,
	}
	for raw, says := range cases {
		_, err := price.NewPricer(120*credit).ParsePrices(raw, priced("m"))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want it to say %q", raw, err, says)
		}
	}
}

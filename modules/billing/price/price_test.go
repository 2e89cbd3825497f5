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

// A call does not become free, or cheap, by a number that is larger than any price.
func TestLargeNumbersCostTheMost(t *testing.T) {
	t.Parallel()
	const quantities = `{"bounded": {"type": "per_quantity", "quantityField": "num", "creditsPerUnit": 1, "maxCredits": 10},
		"n": {"type": "per_quantity", "quantityField": "num", "creditsPerUnit": 0.000001}, "film": 0, "images": 0, "times": 0}`
	const rule = `{"fieldPath":"num","phase":"input","category":"image","defaultCreditsPerUnit":1}`
	methods := priced("bounded", "n", "film", "images", "times")
	methods[2].Rules = json.RawMessage(`[` + strings.Replace(rule, "image", "video", 1) + `]`)
	methods[3].Rules = json.RawMessage(`[` + rule + `]`)
	methods[4].Rules = json.RawMessage(`[{"fieldPath":"text","phase":"input","category":"image","defaultCreditsPerUnit":1},
		{"fieldPath":"num","phase":"input","isMultiplier":true,"applyTo":"image"}]`)
	p, err := price.NewPricer(120*credit).ParsePrices(quantities, methods)
	if err != nil {
		t.Fatal(err)
	}
	for _, num := range []string{"1000000000000000000", "1e30", "1e1000", "1e99999999999999999999", "1" + strings.Repeat("0", 1000)} {
		for _, m := range methods {
			want := price.Most
			if m.Name == "bounded" {
				want = 10 * credit
			}
			arguments := map[string]any{"num": json.Number(num)}
			got, err := p.Price(m.Name, arguments, nil)
			if err != nil || got.Problem != nil || got.Price != want {
				t.Errorf("%s(%.20s) costs %v, %v, %v, want %s", m.Name, num, got.Price, got.Problem, err, want)
			}
			if got := p.Estimate(m.Name, arguments); got != want {
				t.Errorf("%s(%.20s) is estimated at %s, want %s", m.Name, num, got, want)
			}
		}
	}
	if got, err := p.Price("n", map[string]any{"num": json.Number("-1e1000")}, nil); err == nil {
		t.Errorf("fewer than none cost %v", got)
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

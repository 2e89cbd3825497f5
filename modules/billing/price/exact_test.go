package price_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing/price"
)

// drawDecimal draws a decimal as text, with up to so many digits before the
// point, and the same as big.Rat reads it.
func drawDecimal(t *rapid.T, name string, digits int) (string, *big.Rat) {
	text := rapid.StringMatching(fmt.Sprintf(`[0-9]{1,%d}\.[0-9]{1,6}`, digits)).Draw(t, name)
	text = strings.TrimLeft(text, "0")
	if text[0] == '.' {
		text = "0" + text
	}
	r, _ := new(big.Rat).SetString(text)
	return text, r
}

// A price by a formula is what arithmetic on fractions says, rounded once: here
// the formula of a film with two multipliers and of text at a provider's rate.
func TestPricesByFormulaAreExact(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"parts":{"type":"array","items":{"type":"number"}},"a":{"type":"number"},"b":{"type":"string"}}}`)
	rapid.Check(t, func(t *rapid.T) {
		film, perUnit := drawDecimal(t, "credits of a second", 3)
		tokens, perMillion := drawDecimal(t, "dollars of a million", 3)
		first, one := drawDecimal(t, "multiplier", 2)
		second, two := drawDecimal(t, "multiplier as text", 2)
		rate := money.Amount(rapid.Int64Range(1, 1_000_000_000).Draw(t, "credits of a dollar"))
		parts, seconds := []json.Number{}, new(big.Rat)
		for i := range rapid.IntRange(1, 5).Draw(t, "parts") {
			text, n := drawDecimal(t, fmt.Sprint("part ", i), 3)
			parts, seconds = append(parts, json.Number(text)), seconds.Add(seconds, n)
		}
		rules := fmt.Sprintf(`[
			{"fieldPath":"parts[*]","phase":"input","category":"video","defaultCreditsPerUnit":%s},
			{"fieldPath":"text","phase":"input","category":"text","unitMode":"utf8_bytes"},
			{"fieldPath":"a","phase":"input","isMultiplier":true,"applyTo":"video"},
			{"fieldPath":"b","phase":"input","isMultiplier":true,"applyTo":"video"}]`, film)
		f := price.Method{Name: "m", Request: schema, Response: schema, Rules: json.RawMessage(rules), TokenPricing: json.RawMessage(`{"inputPer1MUsd":` + tokens + `}`)}
		list, err := price.NewPricer(rate).ParsePrices("0", []price.Method{f})
		if err != nil {
			t.Fatal(err)
		}
		items := make([]any, len(parts))
		for i, n := range parts {
			items[i] = n
		}
		got, err := list.Price("m", map[string]any{"text": "twelve bytes", "parts": items, "a": json.Number(first), "b": second}, nil)
		if err != nil || got.Problem != nil {
			t.Fatal(err, got.Problem)
		}

		want := seconds.Mul(seconds.Mul(seconds.Mul(seconds, perUnit), one), two)
		text := new(big.Rat).Mul(big.NewRat(12, 1_000_000), perMillion)
		want.Add(want, text.Mul(text, big.NewRat(int64(rate), 1_000_000)))
		if want.Sign() > 0 && want.Cmp(big.NewRat(1, 1)) < 0 {
			want.SetInt64(1)
		}
		if want.Cmp(price.Most.Rat()) > 0 {
			want = price.Most.Rat()
		}
		if got.Price.String() != trimmed(want.FloatString(6)) {
			t.Fatalf("the price is %s, want %s", got.Price, want.FloatString(6))
		}
	})
}

// trimmed is a decimal without the zeros at its end.
func trimmed(text string) string {
	a, err := money.Parse(text)
	if err != nil {
		return text
	}
	return a.String()
}

// A double cannot hold most of these.
func TestPricesThatADoubleGetsWrong(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"number"}}}`)
	for name, c := range map[string]struct{ perUnit, n, want string }{
		"many digits":           {"33.333333", "12345678.9", "411522625.884774"},
		"half a millionth":      {"1.0000005", "1", "1.000001"},
		"more than a double":    {"0.01", "99999999999.12345", "999999999.991235"},
		"more digits as a unit": {"99999999999.12345", "0.01", "999999999.991235"},
	} {
		rules := `[{"fieldPath":"n","phase":"input","category":"video","defaultCreditsPerUnit":` + c.perUnit + `}]`
		list, err := price.NewPricer(credit).ParsePrices("0", []price.Method{{Name: "m", Request: schema, Response: schema, Rules: json.RawMessage(rules)}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := list.Price("m", map[string]any{"n": json.Number(c.n)}, nil)
		if err != nil || got.Problem != nil || got.Price.String() != c.want {
			t.Errorf("%s: %v, %v, %v, want %s", name, got.Price, got.Problem, err, c.want)
		}
	}
	// By quantity: 0.1 credits for each of 3 are 0.3, raised to a whole one;
	// 1.1 for each of 10 are 11, not 12.
	list, err := price.NewPricer(credit).ParsePrices(`{"m":{"type":"per_quantity","quantityField":"n","creditsPerUnit":1.1}}`, []price.Method{{Name: "m", Request: schema, Response: schema}})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[string]string{"3": "4", "10": "11", "100": "110", "0.1": "1"} {
		got, err := list.Price("m", map[string]any{"n": json.Number(n)}, nil)
		if err != nil || got.Price.String() != want {
			t.Errorf("%s units cost %v, %v, want %s", n, got.Price, err, want)
		}
	}
}

// Of 17.6 dollars at 1.1 credits a double makes 19.360000000000003.
func TestBillsInDollarsAreExact(t *testing.T) {
	t.Parallel()
	got, err := price.NewPricer(credit * 11 / 10).Dollars(big.NewRat(176, 10))
	if err != nil || got.String() != "19.36" {
		t.Errorf("%v, %v", got, err)
	}
}

package money_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/portico-run/portico/internal/money"
)

func TestParseAndString(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"3": "3", "0.03588": "0.03588", "-1.5": "-1.5", "1.10": "1.1", " 2 ": "2",
		"0.0000005": "0.000001", "-0.0000005": "-0.000001", "0.0000004": "0", "1e1": "10",
	}
	for in, want := range cases {
		a, err := money.Parse(in)
		if err != nil || a.String() != want {
			t.Errorf("Parse(%q) = %v, %v, want %s", in, a, err, want)
		}
	}
	for _, in := range []string{"", "x", "NaN", "Inf", "1/3", "0x10", "1_000", "1000000000000"} {
		if a, err := money.Parse(in); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", in, a)
		}
	}
}

func TestFromRatRoundsOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		numerator, denominator int64
		want                   string
	}{
		{1, 10, "0.1"}, {1, 3, "0.333333"}, {2, 3, "0.666667"}, {-2, 3, "-0.666667"}, {1, 2_000_000, "0.000001"}, {999_999_999_999, 1, "999999999999"},
	} {
		a, err := money.FromRat(big.NewRat(c.numerator, c.denominator))
		if err != nil || a.String() != c.want {
			t.Errorf("%d/%d = %v, %v, want %s", c.numerator, c.denominator, a, err, c.want)
		}
	}
	if a, err := money.FromRat(big.NewRat(1_000_000_000_000, 1)); err == nil {
		t.Errorf("an amount out of range is %v", a)
	}
}

// A number that somebody else chose costs neither time nor memory.
func TestNumbersAreBounded(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"1e1000", "1e999999999", "1e-1000", strings.Repeat("9", 401)} {
		if r, err := money.ParseRat(in); err == nil {
			t.Errorf("a number of %d digits was read", len(r.String()))
		}
	}
}

func TestEveryFormRoundTrips(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := money.Amount(rapid.Int64Range(-int64(money.Max), int64(money.Max)).Draw(t, "amount"))

		if got, err := money.Parse(want.String()); err != nil || got != want {
			t.Fatalf("Parse(%s) = %v, %v", want, got, err)
		}
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got money.Amount
		if err := json.Unmarshal(b, &got); err != nil || got != want {
			t.Fatalf("JSON %s came back as %v, %v", b, got, err)
		}
		v, err := want.Value()
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Scan(v); err != nil || got != want {
			t.Fatalf("column %v came back as %v, %v", v, got, err)
		}
	})
}

func TestScanReadsADoubleExactlyUpToFifteenDigits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := money.Amount(rapid.Int64Range(-999_999_999_999_999, 999_999_999_999_999).Draw(t, "amount"))
		var got money.Amount
		if err := got.Scan(float64(want) / float64(money.Credit)); err != nil || got != want {
			t.Fatalf("double of %v came back as %v, %v", want, got, err)
		}
	})
}

package price_test

import (
	"testing"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing/price"
)

func TestTokensCostWhatTheyCostInParts(t *testing.T) {
	t.Parallel()
	million := price.PerMillion(2*credit, 10*credit)
	for tokens, want := range map[[2]int64]string{{0, 0}: "0", {1_000_000, 0}: "2", {500_000, 100_000}: "2", {1, 1}: "0.000012", {1 << 62, 1 << 62}: price.Most.String()} {
		if got := million.Of(price.Used{Input: tokens[0], Output: tokens[1]}).String(); got != want {
			t.Errorf("%v cost %s, want %s", tokens, got, want)
		}
	}
	for perMillion, want := range map[money.Amount]money.Amount{499_999: 0, 500_000: 1, 1_499_999: 1} {
		if got := price.PerMillion(perMillion, 0).Of(price.Used{Input: 1}); got != want {
			t.Errorf("a token at %s for a million costs %s, want %s: it is rounded to the nearest", perMillion, got, want)
		}
	}
}

// What a provider had in its cache has a price of its own, and is a part of the input.
func TestCachesHaveTheirPrices(t *testing.T) {
	t.Parallel()
	p := price.Tokens{Input: 10 * credit, Cached: credit, Written: 20 * credit, Output: 100 * credit}
	for used, want := range map[price.Used]string{
		{Input: 1_000_000}:                                       "10",
		{Input: 1_000_000, Cached: 1_000_000}:                    "1",
		{Input: 1_000_000, Cached: 500_000, Written: 100_000}:    "6.5",
		{Input: 1_000_000, Cached: 5_000_000}:                    "1", // more than there is
		{Input: 1_000_000, Cached: -1, Written: -1}:              "10",
		{Input: 1_000_000, Cached: 900_000, Written: 900_000}:    "2.9",
		{Input: 1_000_000, Cached: 1_000_000, Output: 1_000_000}: "101",
	} {
		if got := p.Of(used).String(); got != want {
			t.Errorf("%+v cost %s, want %s", used, got, want)
		}
	}
	if p.Free() || !price.PerMillion(0, 0).Free() || (price.Tokens{Written: 1}).Free() {
		t.Error("only what costs nothing at all is free")
	}
}

package price_test

import (
	"testing"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing/price"
)

func TestTokensCostWhatTheyCostInParts(t *testing.T) {
	t.Parallel()
	million := price.Tokens{Input: 2 * credit, Output: 10 * credit}
	for tokens, want := range map[[2]int64]string{{0, 0}: "0", {1_000_000, 0}: "2", {500_000, 100_000}: "2", {1, 1}: "0.000012", {1 << 62, 1 << 62}: money.Max.String()} {
		if got := million.Of(tokens[0], tokens[1]).String(); got != want {
			t.Errorf("%v cost %s, want %s", tokens, got, want)
		}
	}
	for perMillion, want := range map[money.Amount]money.Amount{499_999: 0, 500_000: 1, 1_499_999: 1} {
		if got := (price.Tokens{Input: perMillion}).Of(1, 0); got != want {
			t.Errorf("a token at %s for a million costs %s, want %s: it is rounded to the nearest", perMillion, got, want)
		}
	}
}

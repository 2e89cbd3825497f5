package price

import (
	"math/big"

	"github.com/portico-run/portico/internal/money"
)

// Tokens is what an answer of a language model costs: credits for a million of each
// kind.
type Tokens struct {
	Input, Output money.Amount
	// Cached is for what the provider read from its cache, Written for what it wrote
	// to it.
	Cached, Written money.Amount
}

// PerMillion are prices where a cache costs what the input does.
func PerMillion(input, output money.Amount) Tokens {
	return Tokens{Input: input, Cached: input, Written: input, Output: output}
}

// Free reports whether nothing costs anything.
func (p Tokens) Free() bool { return p == Tokens{} }

// Used is how many tokens an answer took. Cached and Written are parts of Input.
type Used struct{ Input, Cached, Written, Output int64 }

// Of is the price of so many tokens, rounded to the smallest part of a credit.
func (p Tokens) Of(u Used) money.Amount {
	const million = 1_000_000
	// A provider that counts more parts than there are gets nobody a discount.
	cached := min(max(u.Cached, 0), u.Input)
	written := min(max(u.Written, 0), u.Input-cached)
	cost := new(big.Int)
	for _, part := range []struct {
		price  money.Amount
		tokens int64
	}{{p.Input, u.Input - cached - written}, {p.Cached, cached}, {p.Written, written}, {p.Output, u.Output}} {
		cost.Add(cost, new(big.Int).Mul(big.NewInt(int64(part.price)), big.NewInt(part.tokens)))
	}
	cost.Div(cost.Add(cost, big.NewInt(million/2)), big.NewInt(million))
	if !cost.IsInt64() || cost.Int64() > int64(Most) {
		return Most
	}
	return money.Amount(cost.Int64())
}

package price

import (
	"math/big"

	"github.com/portico-run/portico/internal/money"
)

// Tokens is what an answer of a language model costs: credits for a million of each kind.
type Tokens struct{ Input, Output money.Amount }

// Of is the price of so many tokens, rounded to the smallest part of a credit.
func (p Tokens) Of(input, output int64) money.Amount {
	const million = 1_000_000
	cost := new(big.Int).Mul(big.NewInt(int64(p.Input)), big.NewInt(input))
	cost.Add(cost, new(big.Int).Mul(big.NewInt(int64(p.Output)), big.NewInt(output)))
	cost.Div(cost.Add(cost, big.NewInt(million/2)), big.NewInt(million))
	if !cost.IsInt64() || cost.Int64() > int64(money.Max) {
		return money.Max
	}
	return money.Amount(cost.Int64())
}

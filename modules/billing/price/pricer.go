package price

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/portico-run/portico/internal/money"
)

// Pricer reads price lists.
type Pricer struct {
	usd     money.Amount
	encoder func() *codec.Codec // of o200k_base
}

// NewPricer returns a pricer for which a dollar is so much.
func NewPricer(usd money.Amount) *Pricer {
	// The encoder takes memory that a server without text prices does not need.
	return &Pricer{usd: usd, encoder: sync.OnceValue(codec.NewO200kBase)}
}

func (p *Pricer) countTokens(text string) (int, error) { return p.encoder().Count(text) }

// Dollars is what an upstream's bill comes to, in credits.
func (p *Pricer) Dollars(usd *big.Rat) (money.Amount, error) {
	return money.FromRat(new(big.Rat).Mul(usd, p.usd.Rat()))
}

// Rates are what a provider of many tools takes for a thousand calls, in
// dollars (tool_provider_billing).
type Rates struct{ Standard, Premium, Margin money.Amount }

// composioPrice is what a call through Composio costs where nothing says
// otherwise: docs/wire/refly.md#prices-of-composio-tools.
const composioPrice = 3 * money.Credit

// The tiers of a provider.
const (
	tierStandard = "standard"
	tierPremium  = "premium"
	tierDefault  = "_default"
)

// ParseProvided reads the prices of a toolset whose tools a provider lists: one
// number, or an object with a number or {"tier":"standard"|"premium"} for each
// action and for "_default". An empty text is 3 credits for each. Without
// rates, tiers are an error: a call must not go out for nothing.
func (p *Pricer) ParseProvided(raw string, rates *Rates) (List, error) {
	raw = strings.TrimSpace(raw)
	fallback := composioPrice
	if raw == "" {
		return List{all: &fallback}, nil
	}
	if text, ok := scalar(raw); ok {
		amount, err := parseAmount(text)
		return List{all: &amount}, err
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &entries); err != nil || entries == nil {
		return List{}, errors.New("the prices are neither a number nor an object with one entry per action")
	}
	list := List{all: &fallback, methods: map[string]rule{}}
	var problems []error
	for _, name := range sortedKeys(entries) {
		amount, err := p.provided(entries[name], rates)
		if err != nil {
			problems = append(problems, fmt.Errorf("price of %q: %w", name, err))
		}
		if name == tierDefault {
			list.all = &amount
			continue
		}
		list.methods[name] = rule{perCall: amount}
	}
	return list, errors.Join(problems...)
}

func (p *Pricer) provided(raw json.RawMessage, rates *Rates) (money.Amount, error) {
	if text, ok := scalar(string(raw)); ok {
		return parseAmount(text)
	}
	var in struct {
		Tier string `json:"tier"`
	}
	if err := decodeStrict(raw, &in); err != nil {
		return 0, errors.New(`neither a number nor {"tier": "standard"}`)
	}
	if in.Tier != tierStandard && in.Tier != tierPremium {
		return 0, fmt.Errorf("tier %q is not standard or premium", in.Tier)
	}
	if rates == nil {
		return 0, errors.New("the provider has no rates; set them with portico credit rate")
	}
	rate := rates.Standard
	if in.Tier == tierPremium {
		rate = rates.Premium
	}
	perCall := new(big.Rat).Quo(rate.Rat(), big.NewRat(1000, 1))
	return p.Dollars(perCall.Mul(perCall, rates.Margin.Rat()))
}

// Package billing keeps credits: what users have, what they may spend, and what
// was charged.
package billing

import (
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
)

// Charge is one completed call to be paid for.
type Charge struct {
	CallID   string
	UID      string
	ResultID string // empty outside a run
	Version  int
	Toolset  string
	Tool     string
	Global   bool         // a toolset of the platform; a user's own is not billed
	Price    money.Amount // list price
}

// ModelCharge is one answer of a language model to be paid for.
type ModelCharge struct {
	UID      string
	ResultID string
	Version  int
	Model    string
	Input    int64 // tokens
	Cached   int64 // of them, read from the provider's cache
	Written  int64 // of them, written to it
	Output   int64
	Price    money.Amount
}

// Receipt is what a call cost: Due by the list, Amount after what is free.
type Receipt struct{ Amount, Due money.Amount }

// Usage is one line of what a user was charged.
type Usage struct {
	UsageID   string
	Type      string
	Amount    money.Amount
	Due       money.Amount
	ResultID  string
	Version   *int
	CallID    string
	Meta      string // JSON {"toolName","toolsetKey"}
	Text      string
	Model     string // that answered; empty for a tool
	CreatedAt time.Time
}

// Balance is a user's credits: live recharges less open debts.
type Balance struct {
	Credit  money.Amount `json:"creditAmount" doc:"Granted credits of the recharges that are still live"`
	Net     money.Amount `json:"creditBalance" doc:"What is left, less open debts; may be negative"`
	Debt    money.Amount `json:"debt" doc:"Open debts"`
	Regular money.Amount `json:"regularCredits" doc:"What is left of the recharges, before debts"`
	// Nobody earns credits by templates here.
	Template   money.Amount `json:"templateEarningsCredits" doc:"Left of what templates earned: always 0, since this server has none"`
	Cumulative money.Amount `json:"cumulativeEarningsCredits" doc:"All that templates ever earned: always 0, since this server has none"`
}

// Recharge is credits given to a user until a day.
type Recharge struct {
	ID        string // the same id grants once, however often it is sent
	Amount    money.Amount
	Source    string
	Text      string
	ExpiresAt time.Time
}

// Errors of the service.
var (
	ErrUserMissing  = errs.New(errs.AccountMissing, "There is no such user.").Do("Check the user id.")
	ErrBadRecharge  = errs.New(errs.Invalid, "A recharge needs a positive amount and an expiry in the future.")
	ErrGrantForeign = errs.New(errs.Conflict, "This recharge id was used for another user.").Do("Use an id of its own for each recharge.")
)

// The kinds of usages and debts: docs/wire/refly.md#credits.
const (
	toolCall  = "tool_call"
	modelCall = "model_call"
	overdraft = "usage_overdraft"
)

package eval

import (
	"fmt"
	"sync"

	"github.com/portico-run/portico/internal/money"
)

// plenty is what a user has to spend where there is no budget.
const plenty = 1_000_000 * money.Credit

// ledger keeps the runs within a budget. Each run is allowed a share of what is
// left, and the server refuses its requests once that is spent.
type ledger struct {
	limit *money.Amount // nil is none

	mu      sync.Mutex
	settled *sync.Cond
	idle    int // workers without a run
	spent   money.Amount
	held    money.Amount // by runs that are under way
	dearest money.Amount // of the runs so far
}

func newLedger(limit *money.Amount, workers int) *ledger {
	l := &ledger{limit: limit, idle: workers}
	l.settled = sync.NewCond(&l.mu)
	return l
}

// take allows a run an amount, which it holds until settle. It reports false where
// what is left does not hold a run as dear as the dearest so far, also when those
// have settled that are under way.
func (l *ledger) take() (allowed money.Amount, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit == nil {
		l.idle--
		return plenty, true
	}
	free := *l.limit - l.spent - l.held
	for free < max(l.dearest, 1) && l.held > 0 {
		l.settled.Wait()
		free = *l.limit - l.spent - l.held
	}
	if free <= 0 || free < l.dearest {
		return 0, false
	}
	allowed = max(free/money.Amount(max(l.idle, 1)), l.dearest, 1)
	l.idle--
	l.held += allowed
	return allowed, true
}

// settle counts what a run cost, and reports whether that was all that it was
// allowed.
func (l *ledger) settle(allowed, cost money.Amount) (all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle++
	l.spent += cost
	l.dearest = max(l.dearest, cost)
	if l.limit == nil {
		return false
	}
	l.held -= allowed
	l.settled.Broadcast()
	return cost >= allowed
}

// why says that the budget ended the comparison.
func (l *ledger) why() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("The budget of %s credits does not hold another run: %s are spent, and the dearest run cost %s.", *l.limit, l.spent, l.dearest)
}

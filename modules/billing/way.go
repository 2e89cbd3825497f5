package billing

import (
	"sync"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/money"
)

// ways remembers who cannot be charged by statements that are sent as a whole: each
// attempt would be an error in the log of PostgreSQL. A charge of the other way says
// when that is over.
type ways struct {
	mu    sync.Mutex
	plans bool // there are plans, which may give something first
	users map[string]struct{}
}

// maxWays bounds that memory; what is forgotten is tried again.
const maxWays = 10_000

func (w *ways) oneByOne(uid string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.users[uid]
	return known || w.plans
}

func (w *ways) learn(uid string, plans, ordinary bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plans = plans
	if ordinary {
		delete(w.users, uid)
		return
	}
	if w.users == nil || len(w.users) >= maxWays {
		w.users = map[string]struct{}{}
	}
	w.users[uid] = struct{}{}
}

// learn remembers whether the next such call of a user, whose money is locked, is an
// ordinary one: paid by the recharge that expires first.
func (s *Service) learn(tx database.Tx, who payer, price money.Amount) error {
	lots, err := s.rows.live(tx.Handle, who.UID, s.now())
	s.ways.learn(who.UID, who.Plans, !who.Plus && len(lots) > 0 && lots[0].Balance >= price)
	return err
}

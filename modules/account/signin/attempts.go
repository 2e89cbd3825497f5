package signin

import (
	"strings"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/errs"
)

const (
	// maxAttempts is how often signing in may fail within attemptsIn, for each
	// address and for each account.
	maxAttempts = 5
	attemptsIn  = time.Minute
	// maxRemembered bounds the memory: where so many failed in the last minute,
	// nobody new is let try.
	maxRemembered = 20_000
)

// attempts counts who fails to sign in.
type attempts struct {
	now func() time.Time

	mu     sync.Mutex
	counts map[string]*count
}

type count struct {
	attempts int
	until    time.Time
}

func newAttempts(now func() time.Time) *attempts {
	return &attempts{now: now, counts: map[string]*count{}}
}

// begin counts an attempt from an address, for an account if one is named, or
// returns a RateLimited error. One that succeeded is taken back.
func (a *attempts) begin(ip, account string) (succeeded func(), err error) {
	who := []string{"address " + ip}
	if account != "" {
		who = append(who, "account "+strings.ToLower(account))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	for _, name := range who {
		if c := a.counts[name]; c != nil && c.attempts >= maxAttempts && c.until.After(now) {
			return nil, tooMany(c.until.Sub(now))
		}
	}
	if len(a.counts)+len(who) > maxRemembered {
		a.forget(now)
	}
	if len(a.counts)+len(who) > maxRemembered {
		return nil, tooMany(attemptsIn)
	}
	for _, name := range who {
		c := a.counts[name]
		if c == nil || !c.until.After(now) {
			c = &count{until: now.Add(attemptsIn)}
			a.counts[name] = c
		}
		c.attempts++
	}
	return func() { a.takeBack(who) }, nil
}

func tooMany(wait time.Duration) error {
	e := errs.New(errs.RateLimited, "Signing in failed too often.").Do("Wait a minute, then try again.")
	e.RetryAfter = wait
	return e
}

func (a *attempts) takeBack(who []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range who {
		if c := a.counts[name]; c != nil {
			c.attempts = max(0, c.attempts-1)
		}
	}
}

func (a *attempts) forget(now time.Time) {
	for name, c := range a.counts {
		if !c.until.After(now) {
			delete(a.counts, name)
		}
	}
}

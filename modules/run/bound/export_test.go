package bound

import "context"

// Round is one round, as it is made in the background.
func (l *Limiter) Round(ctx context.Context) { l.round(ctx) }

// Borrowed is what a scope has that is not its own.
func (l *Limiter) Borrowed(one Limit) (places int, starts float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.scopes[one.key()]; s != nil {
		return s.places, s.starts
	}
	return 0, 0
}

package toolset

import (
	"time"

	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// facts are what was read of toolsets a moment ago. Whoever changes one tells
// every process; one that is not told, for whatever reason, goes on for
// factsLife.
type facts struct {
	usable   *cached.Cache[meaning, rows.Usable]
	listings *cached.Cache[state, Listing]
}

// meaning is a key as one user means it.
type meaning struct{ uid, key string }

// state is a toolset's file as it was when it changed last.
type state struct {
	key     string
	updated time.Time
}

const (
	factsLife   = time.Second
	maxFacts    = 10_000
	maxListings = 1000
)

// newFacts returns facts that follow what the hub says; without one, none are
// kept.
func newFacts(hub *wake.Hub, now func() time.Time) facts {
	life := factsLife
	if hub == nil {
		life = 0
	}
	f := facts{
		usable:   cached.New[meaning, rows.Usable](cached.Settings{Max: maxFacts, Age: life, Now: now}),
		listings: cached.New[state, Listing](cached.Settings{Max: maxListings, Age: life, Now: now}),
	}
	if hub != nil {
		hub.Follow(rows.Changed, f.forget)
	}
	return f
}

// forget drops what is known of a user's own toolsets; for the empty uid, of
// all.
func (f facts) forget(uid string) {
	f.usable.Drop(func(m meaning, _ rows.Usable) bool { return uid == "" || m.uid == uid })
	if uid == "" {
		f.listings.Drop(func(state, Listing) bool { return true })
	}
}

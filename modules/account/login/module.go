// Package login keeps the sessions of people who signed in, and the codes that
// sign somebody in or invite somebody, each of which is good once.
package login

import (
	"log/slog"
	"time"

	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/wake"
)

// Deps is what the service needs.
type Deps struct {
	DB     *database.DB
	Logger *slog.Logger
	Now    func() time.Time
	// Wake is the hub that DB tells of its commits. It lets the service know a
	// session for a second; nil reads it for every request.
	Wake *wake.Hub
}

const (
	factsLife = time.Second
	maxFacts  = 10_000
)

// New makes the service and starts nothing.
func New(d Deps) *Service {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	known := cached.Settings{Max: maxFacts, Now: d.Now}
	if d.Wake != nil {
		known.Age = factsLife
	}
	s := &Service{db: d.DB, logger: d.Logger, now: d.Now, live: cached.New[string, Session](known)}
	if d.Wake != nil {
		d.Wake.Follow(Changed, s.forget)
	}
	return s
}

// Changed is the kind of the topics that say that a user, or what lets the user in,
// has changed.
const Changed = "user"

// forget drops what is known of a user's sessions; of all for the empty uid.
func (s *Service) forget(uid string) {
	s.live.Drop(func(_ string, known Session) bool { return uid == "" || known.UID == uid })
}

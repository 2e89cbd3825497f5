package server

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/internal/wake"
)

// Deps is what the module needs.
type Deps struct {
	DB  *database.DB
	Box *secretbox.Box
	// Taken reports whether a toolset of this server has a key; nil for none.
	Taken    func(ctx context.Context, key string) (bool, error)
	Settings Settings
	// Wake is the hub that DB tells of its commits. It lets the service know for
	// a second which servers there are; nil reads that for every call.
	Wake *wake.Hub
	// Logger says why a server cannot be read; nil discards that.
	Logger *slog.Logger
	Now    func() time.Time
}

// Settings are what operators decide for the servers of users.
type Settings struct {
	// PerUser is how many servers a user may have.
	PerUser int
	// Egress lists the networks beyond the public internet that they may reach.
	Egress []netip.Prefix
	// Refresh is after how long tools are listed again, where a server's settings
	// do not say it.
	Refresh time.Duration
}

// Service knows which servers there are. Its methods belong to users; those of
// Operators to whoever runs this server.
type Service struct {
	db       *database.DB
	box      *secretbox.Box
	taken    func(ctx context.Context, key string) (bool, error)
	settings Settings
	logger   *slog.Logger
	now      func() time.Time
	rows     repository
	usable   *cached.Cache[string, directory]
}

// Changed is the kind of the topics that say that MCP servers have changed: those
// of a user, or, without one, those of everybody.
const Changed = "mcp"

const (
	factsLife = time.Second
	maxFacts  = 2000
)

// New returns the service and starts nothing.
func New(d Deps) *Service {
	life := factsLife
	if d.Wake == nil {
		life = 0
	}
	s := &Service{
		db: d.DB, box: d.Box, taken: d.Taken, settings: d.Settings, logger: d.Logger, now: d.Now,
		usable: cached.New[string, directory](cached.Settings{Max: maxFacts, Age: life, Now: d.Now}),
	}
	if d.Wake != nil {
		d.Wake.Follow(Changed, func(uid string) {
			s.usable.Drop(func(of string, _ directory) bool { return uid == "" || of == uid })
		})
	}
	if s.now == nil {
		s.now = d.DB.Now
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.taken == nil {
		s.taken = func(context.Context, string) (bool, error) { return false, nil }
	}
	return s
}

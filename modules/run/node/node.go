// Package node knows the processes that serve one database, and keeps this one
// among them.
//
// A process is a row of nodes with a moment until which it is believed alive, by the
// clock of the database. It moves the moment on, with one statement for everything
// that it works on: calls, programs and runs without a moment of their own live with
// their process (Over). A process that could not move it on in time has lost
// everything, and ends its own work before it begins anew.
package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
)

// Topic is the kind of the topics of wake-ups about processes that come, by their ids.
const Topic = "node"

// Load is what a process does at a moment, in programs.
type Load struct {
	// Capacity is how many run at once.
	Capacity int
	Running  int
	Queued   int
	// MaxPaused is how many may wait for somebody outside.
	MaxPaused int
	Paused    int
}

// Node is a process that serves.
type Node struct {
	// ID is its name for its life, and in leases.
	ID string
	// Address is where the other processes reach it, as host:port; empty where they
	// cannot.
	Address string
	Version string
	Role    string
	Load    Load
	// Draining says that it ends, and takes no new work.
	Draining bool
	// Asked says that somebody wants it to end.
	Asked     bool
	StartedAt time.Time
	ExpiresAt time.Time
}

var (
	// ErrGone says that a process shows no sign of life any more, or never was.
	ErrGone = errs.New(errs.NotFound, "No process of that id serves.")
	// errOver is the answer to a process that was too late to renew its lease.
	errOver = errors.New("the lease of this process is over")
)

// Deps is what the package needs.
type Deps struct {
	DB *database.DB
	// Self is this process: its id, address, version and role.
	Self Node
	// Lease is how long a process is believed alive after a sign of life.
	Lease time.Duration
	// Load says what this process does.
	Load func() Load
	// Draining says whether this process takes no new work.
	Draining func() bool
	// Lost ends everything that this process works on: others have given it up. It is
	// called again where it fails, before the process is among the others again.
	Lost func(ctx context.Context) error
	// Drain begins to end this process; it returns at once.
	Drain  func()
	Logger *slog.Logger
}

// Service is this process among the others.
type Service struct {
	deps Deps
	rows repository

	mu     sync.Mutex
	until  time.Time // of the lease; zero while there is none
	living int64     // processes at the last sign of life
	lost   bool      // what it worked on has not ended yet
	asked  sync.Once

	look chan struct{}
	once sync.Once
	stop chan struct{}
	done chan struct{} // nil until Start
}

// New returns a process that is not among the others until Start.
func New(d Deps) *Service {
	return &Service{deps: d, look: make(chan struct{}, 1), stop: make(chan struct{})}
}

// ID is the name of this process.
func (s *Service) ID() string { return s.deps.Self.ID }

// Get returns a process that is believed alive, or ErrGone.
func (s *Service) Get(ctx context.Context, id string) (Node, error) {
	n, err := s.rows.get(s.deps.DB.Read(ctx), id, s.deps.DB.Now())
	if errors.Is(err, database.ErrNotFound) {
		return Node{}, ErrGone
	}
	return n, err
}

// Live returns the processes that are believed alive, the oldest first.
func (s *Service) Live(ctx context.Context) ([]Node, error) {
	return s.rows.live(s.deps.DB.Read(ctx), s.deps.DB.Now())
}

// Count is how many processes were believed alive at the last sign of life of this
// one, itself among them; at least 1.
func (s *Service) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(max(1, s.living))
}

// Ask has a process end when it is done with what it works on. It hears of it with
// its next sign of life. The error is ErrGone where there is none of that id.
func (s *Service) Ask(ctx context.Context, id string) error {
	return s.deps.DB.InTx(ctx, func(tx database.Tx) error { return s.rows.ask(tx, id, s.deps.DB.Now()) })
}

// Package peer lets the processes of one Portico reach each other, so that a
// request may come to any of them: what one process holds, such as a paused
// program, is asked of that process.
//
// Each listens on an address that no balancer knows. What comes there carries a
// token that only these processes can sign and that names the one it is for.
package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/signing"
)

// Node is a process.
type Node struct {
	ID string
	// Address is where its peers reach it, "host:port"; empty for nowhere.
	Address string
	// Capacity is how many programs it runs at once, Running and Queued how many
	// run and wait.
	Capacity, Running, Queued int
	// Draining is set for one that takes nothing new.
	Draining bool
}

// Directory knows the processes that there are.
type Directory interface {
	// Get returns a process that lives, or ErrGone.
	Get(ctx context.Context, id string) (Node, error)
	// Live lists those that live, this one included.
	Live(ctx context.Context) ([]Node, error)
}

// Errors of asking another process.
var (
	// ErrGone says that the lease of the process is over, or that it never was.
	ErrGone = errors.New("the process is gone")
	// ErrLost says that a process is gone which had taken what it was sent.
	ErrLost = fmt.Errorf("%w, with what it was asked", ErrGone)
	// ErrUnreachable says that the process does not answer although its lease lives.
	// It has taken nothing of what it was sent.
	ErrUnreachable = errs.New(errs.Unavailable, "The server process that holds this does not answer now.").
			Do("Nothing was done. Send the same request again after Retry-After.").After(retryAfter)
	// ErrBroken says that the process took what it was sent, and that its answer was lost.
	ErrBroken = errs.New(errs.Unavailable, "The answer was lost between two server processes.").
			Do("Send the same request again after Retry-After.").After(retryAfter)
)

const retryAfter = 2 * time.Second

// Elsewhere is the error of a request that another process can answer. The HTTP
// floor hands the request on to it.
type Elsewhere struct {
	Node string
	// Gone is what the request is answered where that process is gone.
	Gone func(ctx context.Context) error
}

// Error implements error.
func (e *Elsewhere) Error() string { return "the process " + e.Node + " holds it" }

// In is the same with its answer in other words.
func (e *Elsewhere) In(words func(error) error) *Elsewhere {
	return &Elsewhere{e.Node, func(ctx context.Context) error { return words(e.Gone(ctx)) }}
}

// Deps is what the service needs.
type Deps struct {
	// Self is the id of this process, Listen where it listens for the others.
	Self, Listen string
	// Keys are those that all processes have; tokens get keys of their own from them.
	Keys  signing.Keys
	Nodes Directory
	// TLS is nil for connections that are not encrypted.
	TLS    *tls.Config
	Now    func() time.Time
	Logger *slog.Logger
	Times  Times
	// Ends says whether this process ends: what it has forwarded goes on without it. Nil
	// is never.
	Ends func() bool
}

// Times are how long others are waited for; zero takes what is usual.
type Times struct {
	// Accept is how long another process may take until it takes a request.
	Accept time.Duration
	// Look is how often it is looked whether one that was asked still lives.
	Look time.Duration
	// Grace is how long requests may take when this process stops.
	Grace time.Duration
}

const (
	usualAccept = 2 * time.Second
	usualLook   = 5 * time.Second
	usualGrace  = 15 * time.Second
)

// Service asks the other processes, and answers them.
type Service struct {
	deps     Deps
	keys     signing.Keys
	client   *http.Client
	handlers map[string]Handler
	requests http.Handler // answers forwarded requests
	clients  clients

	mu     sync.Mutex
	places map[string]string // addresses, by node; a node never moves

	listener listener
}

// New returns a service that listens to nobody.
func New(d Deps) (*Service, error) {
	keys, err := d.Keys.For("portico peers")
	if err != nil {
		return nil, err
	}
	for _, t := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&d.Times.Accept, usualAccept}, {&d.Times.Look, usualLook}, {&d.Times.Grace, usualGrace}} {
		if *t.value == 0 {
			*t.value = t.usual
		}
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	made := &Service{deps: d, keys: keys, client: newClient(d), handlers: map[string]Handler{}, places: map[string]string{}}
	made.clients.leaves = map[string]context.CancelFunc{}
	made.handlers[opLeft] = made.serveLeft
	return made, nil
}

// Self is the id of this process.
func (s *Service) Self() string { return s.deps.Self }

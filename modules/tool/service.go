package tool

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/modules/tool/resource"
)

// Service executes tool calls and answers for their records. Each method
// shows and changes the actor's own calls only.
type Service struct {
	Deps
	rows     repository
	schemas  *jsonschema.Cache
	alive    *register
	patience time.Duration // of the end of a program with its calls
	lent     lent
	limiter  *limiter
	large    *budget.Budget
}

// Filter narrows a list of calls.
type Filter struct {
	ResultID string
	Version  *int
	ParentID string // the program that made them
}

// Call returns one record. It returns ErrMissing when there is none of the
// actor's.
func (s *Service) Call(ctx context.Context, a actor.Actor, callID string) (Call, error) {
	return s.rows.byID(s.Stores.DB.Read(ctx), a.UID, callID)
}

// Calls returns the records of the given ids that are the actor's, by id.
func (s *Service) Calls(ctx context.Context, a actor.Actor, callIDs []string) (map[string]Call, error) {
	calls, err := s.rows.byIDs(s.Stores.DB.Read(ctx), a.UID, callIDs)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]Call, len(calls))
	for _, c := range calls {
		byID[c.CallID] = c
	}
	return byID, nil
}

// List returns a page of the actor's calls, in the order they were made.
func (s *Service) List(ctx context.Context, a actor.Actor, f Filter, p httpapi.PageQuery) (httpapi.Page[Call], error) {
	w, err := p.Window()
	if err != nil {
		return httpapi.Page[Call]{}, err
	}
	if f.ResultID != "" && f.ResultID != NoResult {
		if _, err := s.Stores.Runs.Get(ctx, a, f.ResultID, f.Version); err != nil {
			return httpapi.Page[Call]{}, err
		}
	}
	rows, total, err := s.rows.list(s.Stores.DB.Read(ctx), a.UID, f, w)
	if err != nil {
		return httpapi.Page[Call]{}, err
	}
	return httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r callRow) int64 { return r.PK }), callRow.call), nil
}

// File returns a temporary file of a call. It returns ErrMissing when there is
// none, or not any more.
func (s *Service) File(ctx context.Context, a actor.Actor, callID, name string) (resource.File, error) {
	c, err := s.Call(ctx, a, callID)
	if err != nil {
		return resource.File{}, err
	}
	f, err := s.Resources.Open(ctx, a, c.CallID, c.CreatedAt, name)
	if errors.Is(err, resource.ErrGone) {
		return f, ErrMissing
	}
	return f, err
}

// register holds the calls this process works on, for the keeper to renew.
type register struct {
	mu    sync.Mutex
	calls map[string]struct{}
}

func newRegister() *register { return &register{calls: map[string]struct{}{}} }

func (r *register) add(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[callID] = struct{}{}
}

func (r *register) drop(callID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.calls, callID)
}

func (r *register) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]string, 0, len(r.calls))
	for id := range r.calls {
		ids = append(ids, id)
	}
	return ids
}

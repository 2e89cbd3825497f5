package record

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/schema/jsontree"
	"github.com/portico-run/portico/internal/schema/shape"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/run"
)

// Service keeps the records of calls. Methods that take an actor show and change
// the actor's own calls only; those that take a Call, that of its user.
type Service struct {
	db       *database.DB
	objects  objectstore.Store
	runs     *run.Service
	wake     *wake.Hub
	now      func() time.Time
	settings Settings
	rows     repository
	alive    *register
	programs *cached.Cache[ownCall, program]
	lost     atomic.Int64
}

// NewID makes the id of a call that is not recorded yet.
func (s *Service) NewID(origin ids.Origin) string { return s.settings.Calls.New(origin) }

// Filter narrows a list of calls.
type Filter struct {
	ResultID string
	Version  *int
	ParentID string // the program that made them
	Line     int    // of that program
	Status   Status
	Toolset  string
	Tool     string
	// From the one moment, before the other, the call began.
	From, Until time.Time
}

// Call returns one record. It returns ErrMissing when there is none of the
// actor's.
func (s *Service) Call(ctx context.Context, a actor.Actor, callID string) (Call, error) {
	return s.rows.byID(s.db.Read(ctx), a.UID, callID)
}

// Calls returns the records of the given ids that are the actor's, by id.
func (s *Service) Calls(ctx context.Context, a actor.Actor, callIDs []string) (map[string]Call, error) {
	calls, err := s.rows.byIDs(s.db.Read(ctx), a.UID, callIDs)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]Call, len(calls))
	for _, c := range calls {
		byID[c.CallID] = c
	}
	return byID, nil
}

// A page of whole records ends before it has more than so many bytes, unless its first
// one has.
const maxListBytes = 8 << 20

// List returns a page of the actor's calls, in the order they were made. It has fewer
// than were asked for where they are large, and a numbered page is refused then: the
// next one would not begin where it ended.
func (s *Service) List(ctx context.Context, a actor.Actor, f Filter, p httpapi.PageQuery) (httpapi.Page[Call], error) {
	w, err := s.window(ctx, a, f, p)
	if err != nil {
		return httpapi.Page[Call]{}, err
	}
	sizes, total, err := s.rows.sizes(s.db.Read(ctx), a.UID, f, w)
	if err != nil {
		return httpapi.Page[Call]{}, err
	}
	page := httpapi.PageOf(w, sizes, total, func(r sizeRow) int64 { return r.PK })
	if n := fitting(page.Items); n < len(page.Items) {
		if w.Count {
			return httpapi.Page[Call]{}, errs.Newf(errs.Invalid, "The calls of this page are too large to be sent together.").
				Do("Send a smaller pageSize, or cursor and limit: such a page ends early, and its nextCursor goes on.")
		}
		page.Items, page.NextCursor = page.Items[:n], httpapi.EncodeCursor(page.Items[n-1].PK)
	}
	pks := make([]int64, len(page.Items))
	for i, r := range page.Items {
		pks[i] = r.PK
	}
	calls, err := s.rows.byPKs(s.db.Read(ctx), a.UID, pks)
	return httpapi.Page[Call]{Items: calls, NextCursor: page.NextCursor, Total: page.Total, Page: page.Page, PageSize: page.PageSize}, err
}

// fitting is how many of the records a page has room for: one at least.
func fitting(sizes []sizeRow) int {
	var bytes int64
	for i, r := range sizes {
		if bytes += r.Bytes; i > 0 && bytes > maxListBytes {
			return i
		}
	}
	return len(sizes)
}

// window is what a query asks for, of a run of the actor's.
func (s *Service) window(ctx context.Context, a actor.Actor, f Filter, p httpapi.PageQuery) (database.Window, error) {
	w, err := p.Window()
	if err != nil || f.ResultID == "" || f.ResultID == run.NoResult {
		return w, err
	}
	_, err = s.runs.Get(ctx, a, f.ResultID, f.Version)
	return w, err
}

// Nth says which call of its program's a call is, among those of the same tool:
// 1 for the first. It is 0 for a call that no program made.
func (s *Service) Nth(ctx context.Context, a actor.Actor, callID string) (int64, error) {
	return s.rows.nth(s.db.Read(ctx), a.UID, callID)
}

// lookBack is among how many of a user's newest calls a success is looked for.
const lookBack = 500

// LastShape says what the newest success of a method looked like among the
// actor's last calls: the types in its data, without a value, such as
// "list[{id: int, name: str}] (30 items)". It is empty where there was none.
func (s *Service) LastShape(ctx context.Context, a actor.Actor, toolset, name string) (string, error) {
	c, err := s.rows.lastSuccess(s.db.Read(ctx), a.UID, toolset, name, lookBack)
	if errors.Is(err, ErrMissing) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	answer, err := c.Answer()
	if err != nil {
		return "", err
	}
	v, err := jsontree.Parse(answer.Data)
	if err != nil {
		return "", nil //nolint:nilerr // nested too deep to be described
	}
	return shape.Of(v, answer.Truncated == nil), nil
}

// CheckClaims refuses a call that names a run or a canvas of somebody else's. The
// run of a program was checked when the program began.
func (s *Service) CheckClaims(ctx context.Context, c Call) error {
	if c.ResultID != "" && c.ParentID == "" {
		owned, err := s.runs.Owns(ctx, c.Run())
		if err != nil {
			return fmt.Errorf("find the run of a call: %w", err)
		}
		if !owned {
			return ErrResultForeign
		}
	}
	if c.CanvasID == "" {
		return nil
	}
	owned, err := s.runs.CanvasOwned(ctx, s.db.Read(ctx), c.UID, c.CanvasID)
	if err != nil {
		return fmt.Errorf("find the canvas of a call: %w", err)
	}
	if !owned {
		return ErrCanvasForeign
	}
	return nil
}

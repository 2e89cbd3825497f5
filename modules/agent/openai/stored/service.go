// Package stored keeps answers of OpenAI's Responses API, for clients that name the
// last one instead of sending a conversation again.
package stored

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
)

// Refusals of this package.
var (
	// ErrMissing is an answer that is not there, or not the user's.
	ErrMissing = errs.New(errs.NotFound, "There is no such response.").
			Do("Responses are kept for a while, and the oldest make room for new ones.")
	// ErrBroken is a conversation of which an earlier answer is not there any more.
	ErrBroken = errs.New(errs.NotFound, "An earlier response of this conversation is not there any more.").
			Do("Send the conversation in input, without previous_response_id.")
	// ErrLong is a conversation that is too long to be put together.
	ErrLong = errs.New(errs.Invalid, "The conversation that previous_response_id stands for is too long.")
)

// Bounds of a conversation that is put together.
const (
	maxChain = 1000     // answers
	maxBytes = 64 << 20 // of all of them
)

// Settings bound what is kept.
type Settings struct {
	// Life is how long an answer is kept.
	Life time.Duration
	// Max is how many answers of one user are kept, MaxBytes how many bytes these
	// take. The oldest make room.
	Max      int
	MaxBytes int64
}

// Deps is what the service needs.
type Deps struct {
	DB       *database.DB
	Settings Settings
	Now      func() time.Time // nil for the clock
}

// Service keeps answers.
type Service struct {
	db       *database.DB
	settings Settings
	now      func() time.Time
	rows     repository
}

// New wires the service.
func New(d Deps) *Service {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	return &Service{db: d.DB, settings: d.Settings, now: d.Now}
}

// Response is an answer, with what was new in its request.
type Response struct {
	ID string
	// Previous is the answer that the request went on from; empty for none.
	Previous string
	Input    []json.RawMessage
	// Answer is the whole object, as the client got it.
	Answer json.RawMessage
}

// Output are the items of the answer.
func (r Response) Output() ([]json.RawMessage, error) {
	var answer struct {
		Output []json.RawMessage `json:"output"`
	}
	err := json.Unmarshal(r.Answer, &answer)
	return answer.Output, err
}

// Save keeps an answer. The oldest ones of the user's go where it would be too many.
func (s *Service) Save(ctx context.Context, a actor.Actor, r Response) error {
	input, err := json.Marshal(r.Input)
	if err != nil {
		return fmt.Errorf("the input of a response: %w", err)
	}
	now := s.now()
	row := responseRow{
		ResponseID: r.ID, UID: a.UID, PreviousID: r.Previous, Input: string(input), Answer: string(r.Answer),
		Size: int64(len(input) + len(r.Answer)), CreatedAt: now, ExpiresAt: now.Add(s.settings.Life),
	}
	if row.Size > s.settings.MaxBytes {
		return errs.Newf(errs.TooLarge, "The response takes %d bytes with its input; %d may be kept.", row.Size, s.settings.MaxBytes).Do("Send store: false.")
	}
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.insert(tx, row); err != nil {
			return err
		}
		return s.makeRoom(tx, a.UID)
	})
}

// makeRoom deletes the oldest answers that are too many.
func (s *Service) makeRoom(tx database.Tx, uid string) error {
	kept, size, err := s.rows.kept(tx.Handle, uid)
	if err != nil || kept <= int64(s.settings.Max) && size <= s.settings.MaxBytes {
		return err
	}
	sizes, err := s.rows.sizes(tx.Handle, uid, s.settings.Max+1)
	if err != nil {
		return err
	}
	var sum int64
	for i, r := range sizes { // the newest first
		if sum += r.Size; i >= s.settings.Max || sum > s.settings.MaxBytes {
			return s.rows.deleteUntil(tx, uid, r.PK)
		}
	}
	return nil
}

// Get returns an answer.
func (s *Service) Get(ctx context.Context, a actor.Actor, id string) (Response, error) {
	row, err := s.rows.one(s.db.Read(ctx), a.UID, id, s.now())
	if err != nil {
		return Response{}, err
	}
	return row.response()
}

// Chain returns the answers of a conversation up to one, the oldest first.
func (s *Service) Chain(ctx context.Context, a actor.Actor, id string) (chain []Response, err error) {
	err = s.db.InSnapshot(ctx, func(h database.Handle) error {
		links, err := s.rows.chain(h, a.UID, id, s.now())
		if err != nil {
			return err
		}
		var size int64
		pks := make([]int64, len(links))
		for i, l := range links {
			pks[i], size = l.PK, size+l.Size
		}
		switch {
		case len(links) == 0:
			return ErrMissing
		case len(links) > maxChain || size > maxBytes:
			return ErrLong.Do(fmt.Sprintf("At most %d responses of %d bytes; send what matters in input, without previous_response_id.", maxChain, maxBytes))
		case links[len(links)-1].PreviousID != "":
			return ErrBroken
		}
		rows, err := s.rows.those(h, a.UID, pks)
		if err != nil {
			return err
		}
		slices.SortFunc(rows, func(a, b responseRow) int { return slices.Index(pks, b.PK) - slices.Index(pks, a.PK) })
		for _, row := range rows {
			r, err := row.response()
			if err != nil {
				return err
			}
			chain = append(chain, r)
		}
		return nil
	})
	return chain, err
}

// Delete deletes an answer.
func (s *Service) Delete(ctx context.Context, a actor.Actor, id string) error {
	return s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.delete(tx, a.UID, id, s.now()) })
}

// Purge deletes the answers of all users that are kept no longer.
func (s *Service) Purge(ctx context.Context) error {
	return s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.purge(tx, s.now()) })
}

// Package checkpoint keeps what a turn of an agent has come to, as it comes: what it
// began with, and each answer of the model that had calls, with the outputs before
// it. From that, another process can go on with the turn.
package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// Origin is what a turn began with.
type Origin struct {
	Actor   actor.Actor     `json:"actor"`
	Request json.RawMessage `json:"request"`
}

// Step is an answer of the model's that has calls.
type Step struct {
	loop.Step
	// Message is the answer as it was recorded.
	Message string `json:"message,omitempty"`
	// Shown is under which ids the calls are recorded, by the provider's ids.
	Shown map[string]record.Shown `json:"shown"`
	// Warnings are what the user was told so far.
	Warnings []string `json:"warnings,omitempty"`
}

// Turn is one that was read back.
type Turn struct {
	Origin
	History []model.Item // with the last answer
	// Records are under which ids the results of calls are kept, by the provider's ids.
	Records map[string]string
	Last    Step
	Steps   int // with the last one; 0 where the model has not answered yet
	// Continued is how often another process went on with it.
	Continued int
}

// ErrNone says that there is nothing that could be gone on with.
var ErrNone = errors.New("there is no checkpoint of the turn")

// Store keeps turns.
type Store struct {
	db   *database.DB
	now  func() time.Time
	rows repository
}

// New returns a store in a database.
func New(db *database.DB) *Store { return &Store{db: db, now: db.Now} }

// Begin keeps what the turn of a run began with.
func (s *Store) Begin(tx database.Tx, r run.Ref, o Origin) error { return s.insert(tx, r, 0, o) }

// Addition is a step of the turn of a run.
type Addition struct {
	Run    run.Ref
	Number int // from 1
	Step   Step
	// Mine returns run.ErrTaken where another process works on the run.
	Mine func(tx database.Tx) error
}

// Add keeps a step. It returns run.ErrTaken where another process has gone on with the
// turn.
func (s *Store) Add(ctx context.Context, a Addition) error {
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := a.Mine(tx); err != nil {
			return err
		}
		return s.insert(tx, a.Run, a.Number, a.Step)
	})
}

func (s *Store) insert(tx database.Tx, r run.Ref, n int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	// What a provider wrote may be no UTF-8, which no database takes.
	body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	return s.rows.insert(tx, row{UID: r.UID, ResultID: r.ResultID, Version: r.Version, Step: n, Body: string(body), CreatedAt: s.now()})
}

// Load reads the turn of a run. It returns ErrNone where there is none, and where it
// is not known under which ids the calls of the last answer are recorded.
func (s *Store) Load(ctx context.Context, r run.Ref) (Turn, error) {
	rows, err := s.rows.steps(s.db.Read(ctx), r)
	if err != nil {
		return Turn{}, err
	}
	if len(rows) == 0 {
		return Turn{}, ErrNone
	}
	t := Turn{Continued: rows[0].Continued, Steps: len(rows) - 1, Records: map[string]string{}}
	for i, row := range rows {
		if row.Step != i {
			return Turn{}, ErrNone
		}
		if i == 0 {
			err = json.Unmarshal([]byte(row.Body), &t.Origin)
		} else {
			t.Last = Step{}
			err = json.Unmarshal([]byte(row.Body), &t.Last)
			t.History = append(t.History, t.Last.Items...)
			maps.Copy(t.Records, t.Last.Records)
		}
		if err != nil {
			return Turn{}, fmt.Errorf("step %d of the turn of %s: %w", i, r.ResultID, err)
		}
	}
	known := map[string]bool{}
	for _, c := range t.Last.Calls() {
		if t.Last.Shown[c.ID].CallID == "" || known[c.ID] {
			return Turn{}, ErrNone
		}
		known[c.ID] = true
	}
	return t, nil
}

// Continue counts that another process goes on with a turn.
func (s *Store) Continue(tx database.Tx, r run.Ref) error { return s.rows.continued(tx, r) }

// Drop forgets the turn of a run.
func (s *Store) Drop(tx database.Tx, r run.Ref) error { return s.rows.drop(tx, r) }

// Orphans returns at most limit runs, of all users, whose process is gone and whose
// turns are kept.
func (s *Store) Orphans(ctx context.Context, limit int) ([]run.Ref, error) {
	return s.rows.orphans(s.db.Read(ctx), s.now(), limit)
}

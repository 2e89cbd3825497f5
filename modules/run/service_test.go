package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/node/nodetest"
)

const lease = 30 * time.Second

var (
	noon = time.Date(2026, 3, 4, 12, 0, 0, 123456000, time.UTC)
	anna = actor.Actor{UID: "u-anna"}
	ben  = actor.Actor{UID: "u-ben"}
)

func newService(t *testing.T, db *database.DB) *run.Service {
	t.Helper()
	for _, a := range []actor.Actor{anna, ben} {
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES (?, ?)", a.UID, a.UID).Error
		}))
	}
	return run.New(run.Deps{DB: db, Now: func() time.Time { return noon }, Owner: "pod-1"}).Service
}

func create(t *testing.T, s *run.Service, a actor.Actor, p run.CreateParams) run.Run {
	t.Helper()
	r, err := s.Create(t.Context(), a, p)
	require.NoError(t, err)
	return r
}

func appendEvent(t *testing.T, db *database.DB, s *run.Service, r run.Run, e run.NewEvent) (int64, error) {
	t.Helper()
	var seq int64
	err := db.InTx(t.Context(), func(tx database.Tx) (err error) {
		seq, err = s.Append(t.Context(), tx, r.Ref(), e)
		return err
	})
	return seq, err
}

func finish(t *testing.T, db *database.DB, s *run.Service, r run.Run, f run.Finish) error {
	t.Helper()
	return db.InTx(t.Context(), func(tx database.Tx) error {
		return s.Finish(t.Context(), tx, r.Ref(), f)
	})
}

func events(t *testing.T, s *run.Service, r run.Run, after int64, limit int) []run.Event {
	t.Helper()
	out, err := s.Events(t.Context(), actor.Actor{UID: r.UID}, run.EventFilter{ResultID: r.ResultID, Version: r.Version, After: after, Limit: limit})
	require.NoError(t, err)
	return out
}

// A caller that goes away while a run is made gets the run, or there is none: this
// process would keep one alive of which nobody knows.
func TestARunIsMadeOrItIsNot(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := newService(t, db)
		made := int64(0)
		for i := range 1000 {
			ctx, leave := context.WithTimeout(t.Context(), time.Duration(i)*6*time.Microsecond)
			if _, err := s.Create(ctx, anna, run.CreateParams{}); err == nil {
				made++
			}
			leave()
		}
		var rows int64
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Table("action_results").Count(&rows).Error)
		require.Equal(t, made, rows)
		require.Positive(t, rows)
	})
}

func TestLifeOfARun(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := newService(t, db)
		canvas, err := s.CreateCanvas(t.Context(), anna, "")
		require.NoError(t, err)
		require.Equal(t, "Untitled", canvas.Title)

		r := create(t, s, anna, run.CreateParams{
			Title: "demo", CanvasID: canvas.CanvasID, Input: json.RawMessage(`{"query":"hi"}`), Toolsets: []string{"weather"},
		})
		require.True(t, strings.HasPrefix(r.ResultID, "ar-"), r.ResultID)
		want := run.Run{
			ResultID: r.ResultID, UID: anna.UID, Type: "skill", Title: "demo", CanvasID: canvas.CanvasID,
			Input: `{"query":"hi"}`, Toolsets: []string{"weather"}, Status: run.Running, Seq: 1, CreatedAt: noon, UpdatedAt: noon,
		}
		require.Empty(t, cmp.Diff(want, r))
		got, err := s.Get(t.Context(), anna, r.ResultID, nil)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got))

		seq, err := appendEvent(t, db, s, r, run.NewEvent{
			Type: run.ToolCallStart, CallID: "ptc:1", Payload: map[string]string{"note": "a<b\x00\xff"},
		})
		require.NoError(t, err)
		require.Equal(t, int64(2), seq)
		require.NoError(t, finish(t, db, s, r, run.Finish{Status: run.Failed, PTCEnabled: true, Errors: []string{"boom"}}))

		wantEvents := []run.Event{
			{Seq: 1, Type: run.Start, Payload: json.RawMessage(`{}`), CreatedAt: noon},
			{Seq: 2, Type: run.ToolCallStart, CallID: "ptc:1", Payload: json.RawMessage("{\"note\":\"a<b\\u0000\\ufffd\"}"), CreatedAt: noon},
			{Seq: 3, Type: run.End, Payload: json.RawMessage(`{"status":"error"}`), CreatedAt: noon},
		}
		require.Empty(t, cmp.Diff(wantEvents, events(t, s, r, 0, 10)))
		require.Empty(t, cmp.Diff(wantEvents[1:2], events(t, s, r, 1, 1)))
		require.Empty(t, events(t, s, r, 3, 10))

		want.Status, want.PTCEnabled, want.Errors, want.ErrorType, want.Seq = run.Failed, true, []string{"boom"}, "systemError", 3
		got, err = s.Get(t.Context(), anna, r.ResultID, new(0))
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got, cmpopts.EquateEmpty()))

		_, err = appendEvent(t, db, s, r, run.NewEvent{Type: run.Log})
		require.ErrorIs(t, err, run.ErrEnded)
		require.ErrorIs(t, finish(t, db, s, r, run.Finish{Status: run.Done}), run.ErrEnded)
		require.Len(t, events(t, s, r, 0, 10), 3)
	})
}

func TestVersionsOfAResult(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := newService(t, db)
		first := create(t, s, anna, run.CreateParams{ResultID: "ar-mine"})
		second := create(t, s, anna, run.CreateParams{ResultID: "ar-mine"})
		require.Equal(t, []int{0, 1}, []int{first.Version, second.Version})
		newest, err := s.Get(t.Context(), anna, "ar-mine", nil)
		require.NoError(t, err)
		require.Equal(t, 1, newest.Version)
		_, err = s.Get(t.Context(), anna, "ar-mine", new(2))
		require.ErrorIs(t, err, run.ErrMissing)

		_, err = s.Create(t.Context(), ben, run.CreateParams{ResultID: "ar-mine"})
		require.ErrorIs(t, err, run.ErrMissing)

		runs, err := s.List(t.Context(), anna, run.Filter{}, httpapi.PageQuery{Limit: 1})
		require.NoError(t, err)
		require.NotEmpty(t, runs.NextCursor)
		require.Equal(t, 1, runs.Items[0].Version)
		runs, err = s.List(t.Context(), anna, run.Filter{}, httpapi.PageQuery{Cursor: runs.NextCursor, Limit: 1})
		require.NoError(t, err)
		require.Empty(t, runs.NextCursor)
		require.Equal(t, 0, runs.Items[0].Version)
	})
}

// The number of an event is given out under the run's lock, so whoever reads
// while others write sees a growing prefix and never a gap.
func TestEventsAppearInCommitOrderWithoutGaps(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := newService(t, db)
		r := create(t, s, anna, run.CreateParams{})
		const writers, each = 4, 15
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					if _, err := appendEvent(t, db, s, r, run.NewEvent{Type: run.Log}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		written := make(chan struct{})
		go func() { wg.Wait(); close(written) }()
		var seen int64
		for done := false; !done; {
			select {
			case <-written:
				done = true
			default:
			}
			for _, e := range events(t, s, r, seen, 1000) {
				require.Equal(t, seen+1, e.Seq)
				seen = e.Seq
			}
		}
		require.Equal(t, int64(1+writers*each), seen)
	})
}

func TestAppendIsPartOfItsTransaction(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := newService(t, db)
		r := create(t, s, anna, run.CreateParams{})
		failure := errors.New("no")
		err := db.InTx(t.Context(), func(tx database.Tx) error {
			if _, err := s.Append(t.Context(), tx, r.Ref(), run.NewEvent{Type: run.Log}); err != nil {
				return err
			}
			return failure
		})
		require.ErrorIs(t, err, failure)
		seq, err := appendEvent(t, db, s, r, run.NewEvent{Type: run.Log})
		require.NoError(t, err)
		require.Equal(t, int64(2), seq)
	})
}

func TestPublishesAfterCommit(t *testing.T) {
	t.Parallel()
	topics := make(chan string, 8)
	db := databasetest.Open(t, database.SQLite, func(topic string) { topics <- topic })
	s := newService(t, db)
	r := create(t, s, anna, run.CreateParams{})
	require.Equal(t, run.Topic(r.ResultID), <-topics)
	require.NoError(t, finish(t, db, s, r, run.Finish{Status: run.Done}))
	require.Equal(t, run.Topic(r.ResultID), <-topics)
}

func TestLeases(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := newService(t, db)
		nodetest.Live(t, db, "pod-1", noon.Add(lease))
		r, over := create(t, s, anna, run.CreateParams{}), create(t, s, ben, run.CreateParams{})
		require.NoError(t, finish(t, db, s, over, run.Finish{Status: run.Done}))
		other := run.New(run.Deps{DB: db, Owner: "pod-2", Now: func() time.Time { return noon }}).Service
		expired := func(now time.Time) []string {
			runs, err := other.Expired(t.Context(), now, 10)
			require.NoError(t, err)
			ids := []string{}
			for _, r := range runs {
				ids = append(ids, r.ResultID)
			}
			return ids
		}
		require.Empty(t, expired(noon.Add(lease)))
		require.Equal(t, []string{r.ResultID}, expired(noon.Add(lease+time.Second)))
		own, err := s.Expired(t.Context(), noon.Add(lease+time.Second), 10)
		require.NoError(t, err)
		require.Empty(t, own, "a process that was late has not left its run behind")
		nodetest.Live(t, db, "pod-2", noon.Add(time.Hour))
		require.Equal(t, []string{r.ResultID}, expired(noon.Add(lease+time.Second)))
		nodetest.Live(t, db, "pod-1", noon.Add(time.Hour))
		require.Empty(t, expired(noon.Add(time.Hour)))
		require.Equal(t, []string{r.ResultID}, expired(noon.Add(time.Hour+time.Microsecond)))

		// What a process abandons is everybody's, its own too; what another one has is not.
		nodetest.Live(t, db, "pod-2", noon.Add(time.Hour))
		require.NoError(t, other.Abandon(t.Context()))
		require.Empty(t, expired(noon.Add(time.Hour)))
		require.NoError(t, s.Abandon(t.Context()))
		require.Equal(t, []string{r.ResultID}, expired(noon.Add(time.Second)))
		own, err = s.Expired(t.Context(), noon.Add(time.Second), 10)
		require.NoError(t, err)
		require.Len(t, own, 1)
	})
}

// A run goes to another process when its own is gone, or leaves it, and to one only.
func TestARunIsTakenOver(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := newService(t, db)
		r := create(t, s, anna, run.CreateParams{})
		pod := func(name string, now time.Time) *run.Service {
			return run.New(run.Deps{DB: db, Owner: name, Now: func() time.Time { return now }}).Service
		}
		take := func(by *run.Service) error {
			return db.InTx(t.Context(), func(tx database.Tx) error { return by.TakeOver(t.Context(), tx, r.Ref()) })
		}
		mine := func(of *run.Service) error {
			return db.InTx(t.Context(), func(tx database.Tx) error { return of.Mine(t.Context(), tx, r.Ref()) })
		}
		nodetest.Live(t, db, "pod-1", noon.Add(lease))
		second := pod("pod-2", noon.Add(lease+time.Second))
		require.ErrorIs(t, take(pod("pod-2", noon)), run.ErrTaken, "its process is alive")
		require.NoError(t, mine(s))
		require.NoError(t, second.Postpone(t.Context(), r.Ref(), noon.Add(2*lease)))
		require.ErrorIs(t, take(second), run.ErrTaken, "it is for later")
		second = pod("pod-2", noon.Add(2*lease+time.Second))
		nodetest.Live(t, db, "pod-2", noon.Add(3*lease))
		require.NoError(t, take(second))
		require.ErrorIs(t, take(pod("pod-3", noon.Add(2*lease+time.Second))), run.ErrTaken)
		require.NoError(t, mine(second))
		require.ErrorIs(t, mine(s), run.ErrTaken)
		require.ErrorIs(t, take(pod("pod-2", noon.Add(2*time.Hour))), run.ErrTaken, "a process that was late works on")

		require.ErrorIs(t, s.Leave(t.Context(), r.Ref()), run.ErrTaken)
		require.NoError(t, second.Leave(t.Context(), r.Ref()))
		third := pod("pod-3", noon.Add(2*lease+2*time.Second))
		require.NoError(t, take(third))
		require.NoError(t, finish(t, db, s, r, run.Finish{Status: run.Done}))
		require.ErrorIs(t, mine(third), run.ErrEnded)
		require.ErrorIs(t, take(pod("pod-2", noon.Add(2*time.Hour))), run.ErrTaken)
	})
}

func TestRefusesBadInput(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite, nil)
	s := newService(t, db)
	for name, p := range map[string]run.CreateParams{
		"id with a slash":     {ResultID: "a/b"},
		"id too long":         {ResultID: strings.Repeat("a", 65)},
		"reserved id":         {ResultID: "non-result-id"},
		"title with NUL":      {Title: "a\x00"},
		"title not UTF-8":     {Title: "\xff"},
		"title too long":      {Title: strings.Repeat("é", 501)},
		"type too long":       {Type: strings.Repeat("a", 33)},
		"input not JSON":      {Input: json.RawMessage("{")},
		"input not UTF-8":     {Input: json.RawMessage("\"\xff\"")},
		"toolset key too big": {Toolsets: []string{strings.Repeat("a", 65)}},
		"too many toolsets":   {Toolsets: make([]string, 201)},
	} {
		_, err := s.Create(t.Context(), anna, p)
		require.Equal(t, errs.Invalid, errs.CodeOf(err), name)
	}
	_, err := s.Create(t.Context(), anna, run.CreateParams{Input: json.RawMessage(`"` + strings.Repeat("a", 1<<20) + `"`)})
	require.Equal(t, errs.TooLarge, errs.CodeOf(err))
	_, err = s.Create(t.Context(), anna, run.CreateParams{CanvasID: "c-none"})
	require.ErrorIs(t, err, run.ErrCanvasMissing)
	_, err = s.CreateCanvas(t.Context(), anna, strings.Repeat("a", 201))
	require.Equal(t, errs.Invalid, errs.CodeOf(err))
	runs, err := s.List(t.Context(), anna, run.Filter{}, httpapi.PageQuery{})
	require.NoError(t, err)
	require.Empty(t, runs.Items)

	r := create(t, s, anna, run.CreateParams{Title: strings.Repeat("é", 500)})
	_, err = appendEvent(t, db, s, r, run.NewEvent{Type: run.End})
	require.Error(t, err)
	_, err = appendEvent(t, db, s, r, run.NewEvent{Type: run.Log, Payload: "text"})
	require.ErrorContains(t, err, "not an object")
	require.Error(t, finish(t, db, s, r, run.Finish{Status: run.Running}))
	require.Len(t, events(t, s, r, 0, 10), 1)
}

func TestCancelledContext(t *testing.T) {
	t.Parallel()
	s := newService(t, databasetest.Open(t, database.SQLite, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Create(ctx, anna, run.CreateParams{})
	require.ErrorIs(t, err, context.Canceled)
}

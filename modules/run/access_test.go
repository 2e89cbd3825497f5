package run_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/accesstest"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/run"
)

// Every exported method of the service is tried by a user on another user's
// things, or is on the list of those that belong to no user.
func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	system := map[string]string{
		"All":      "is for administrators, of all users",
		"Abandon":  "is for what a process runs, for all users",
		"Expired":  "is the reaper's, for all users",
		"Changed":  "finds what is published, of all users",
		"Versions": "is for what is published, of all users: who a run belongs to is in the answer",
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := newService(t, db)
		ctx := t.Context()
		canvas, err := s.CreateCanvas(ctx, anna, "hers")
		require.NoError(t, err)
		r := create(t, s, anna, run.CreateParams{Title: "hers"})

		tries := foreignTries(s, db, r, canvas)
		accesstest.Each(t, reflect.TypeFor[*run.Service](), tries, system)

		got, err := s.Get(ctx, anna, r.ResultID, nil)
		require.NoError(t, err)
		require.Equal(t, r, got)
		require.Len(t, events(t, s, r, 0, 10), 1)
	})
}

func foreignTries(s *run.Service, db *database.DB, r run.Run, canvas run.Canvas) map[string]func(*testing.T) {
	type tries = map[string]func(*testing.T)
	his := run.Ref{UID: ben.UID, ResultID: r.ResultID, Version: r.Version}
	return tries{
		"Create": func(t *testing.T) {
			_, err := s.Create(t.Context(), ben, run.CreateParams{ResultID: r.ResultID})
			require.ErrorIs(t, err, run.ErrMissing)
			_, err = s.Create(t.Context(), ben, run.CreateParams{CanvasID: canvas.CanvasID})
			require.ErrorIs(t, err, run.ErrCanvasMissing)
		},
		"Get": func(t *testing.T) {
			_, foreign := s.Get(t.Context(), ben, r.ResultID, nil)
			_, absent := s.Get(t.Context(), ben, "ar-none", nil)
			require.ErrorIs(t, foreign, run.ErrMissing)
			require.Equal(t, absent, foreign)
		},
		"Totals": func(t *testing.T) {
			totals, err := s.Totals(t.Context(), ben, []run.Ref{his, r.Ref()})
			require.NoError(t, err)
			require.Empty(t, totals)
		},
		"List": func(t *testing.T) {
			runs, err := s.List(t.Context(), ben, run.Filter{}, httpapi.PageQuery{PageSize: 10})
			require.NoError(t, err)
			require.Empty(t, runs.Items)
			require.Zero(t, *runs.Total)
		},
		"Owns": func(t *testing.T) {
			owned, err := s.Owns(t.Context(), his)
			require.NoError(t, err)
			require.False(t, owned)
			owned, err = s.Owns(t.Context(), r.Ref())
			require.NoError(t, err)
			require.True(t, owned)
		},
		"Append": func(t *testing.T) {
			require.ErrorIs(t, db.InTx(t.Context(), func(tx database.Tx) error {
				_, err := s.Append(t.Context(), tx, his, run.NewEvent{Type: run.Log})
				return err
			}), run.ErrMissing)
		},
		"Finish": func(t *testing.T) {
			require.ErrorIs(t, db.InTx(t.Context(), func(tx database.Tx) error {
				return s.Finish(t.Context(), tx, his, run.Finish{Status: run.Done})
			}), run.ErrMissing)
		},
		"Events": func(t *testing.T) {
			got, err := s.Events(t.Context(), ben, run.EventFilter{ResultID: r.ResultID, Version: r.Version, Limit: 10})
			require.NoError(t, err)
			require.Empty(t, got)
		},
		"Progress": func(t *testing.T) {
			his := r.Ref()
			his.UID = ben.UID
			got, err := s.Progress(t.Context(), []run.Ref{his})
			require.NoError(t, err)
			require.Empty(t, got)
		},
		"Register": func(t *testing.T) {
			for _, p := range []run.OutsideParams{{ResultID: r.ResultID, Version: r.Version}, {ResultID: r.ResultID, Version: 7}} {
				require.ErrorIs(t, db.InTx(t.Context(), func(tx database.Tx) error { _, err := s.Register(t.Context(), tx, ben, p); return err }), run.ErrMissing)
			}
			require.ErrorIs(t, db.InTx(t.Context(), func(tx database.Tx) error {
				_, err := s.Register(t.Context(), tx, ben, run.OutsideParams{CanvasID: canvas.CanvasID})
				return err
			}), run.ErrCanvasMissing)
		},
		"Prolong": func(t *testing.T) {
			until := time.Now().Add(time.Hour)
			p := run.OutsideParams{ResultID: "ar-outside", Until: until}
			require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { _, err := s.Register(t.Context(), tx, anna, p); return err }))
			require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
				return s.Prolong(t.Context(), tx, run.Ref{UID: ben.UID, ResultID: p.ResultID}, until.Add(time.Hour))
			}))
			got, err := s.Get(t.Context(), anna, p.ResultID, nil)
			require.NoError(t, err)
			require.WithinDuration(t, until, got.ExpiresAt, time.Second)
		},
		"TakeOver": func(t *testing.T) {
			require.ErrorIs(t, db.InTx(t.Context(), func(tx database.Tx) error {
				return s.TakeOver(t.Context(), tx, his)
			}), run.ErrTaken)
		},
		"Leave":    func(t *testing.T) { require.ErrorIs(t, s.Leave(t.Context(), his), run.ErrTaken) },
		"Postpone": func(t *testing.T) { require.NoError(t, s.Postpone(t.Context(), his, time.Now()), "it changes nothing") },
		"Mine": func(t *testing.T) {
			require.ErrorIs(t, db.InTx(t.Context(), func(tx database.Tx) error { return s.Mine(t.Context(), tx, his) }), run.ErrMissing)
		},
		"AddMessage": func(t *testing.T) {
			require.ErrorIs(t, db.InTx(t.Context(), func(tx database.Tx) error {
				return s.AddMessage(t.Context(), tx, his, run.NewMessage{Event: 1, Type: run.Human, Content: "his"})
			}), run.ErrMissing)
			require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
				return s.AddMessage(t.Context(), tx, r.Ref(), run.NewMessage{Event: 1, MessageID: "am-hers", Type: run.Human, Content: "hers"})
			}))
		},
		"ChangeMessage": func(t *testing.T) {
			require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
				return s.ChangeMessage(t.Context(), tx, his, run.MessageChange{MessageID: "am-hers", Content: new("his")})
			}), "a message need not be there")
			got, err := s.Messages(t.Context(), anna, run.MessageFilter{ResultID: r.ResultID, Version: r.Version})
			require.NoError(t, err)
			require.Equal(t, "hers", got[0].Content)
		},
		"Messages": func(t *testing.T) {
			got, err := s.Messages(t.Context(), ben, run.MessageFilter{ResultID: r.ResultID, Version: r.Version})
			require.NoError(t, err)
			require.Empty(t, got)
		},
		"CreateCanvas": func(t *testing.T) {
			_, err := s.CreateCanvas(t.Context(), ben, "his")
			require.NoError(t, err)
		},
		"Canvases": func(t *testing.T) {
			hers, err := s.Canvases(t.Context(), anna, httpapi.PageQuery{})
			require.NoError(t, err)
			require.Empty(t, hers.NextCursor)
			require.Equal(t, []run.Canvas{canvas}, hers.Items)
			his, err := s.Canvases(t.Context(), ben, httpapi.PageQuery{})
			require.NoError(t, err)
			require.NotContains(t, his.Items, canvas)
		},
		"Canvas": func(t *testing.T) {
			_, err := s.Canvas(t.Context(), ben, canvas.CanvasID)
			require.ErrorIs(t, err, run.ErrCanvasMissing)
			got, err := s.Canvas(t.Context(), anna, canvas.CanvasID)
			require.NoError(t, err)
			require.Equal(t, canvas, got)
		},
		"CanvasIdle": func(t *testing.T) {
			require.NoError(t, s.CanvasIdle(t.Context(), ben, canvas.CanvasID), "nothing of his runs there")
		},
		"RenameCanvas": func(t *testing.T) {
			_, err := s.RenameCanvas(t.Context(), ben, canvas.CanvasID, "his")
			require.ErrorIs(t, err, run.ErrCanvasMissing)
		},
		"DeleteCanvas": func(t *testing.T) {
			require.ErrorIs(t, s.DeleteCanvas(t.Context(), ben, canvas.CanvasID), run.ErrCanvasMissing)
		},
		"CanvasOwned": func(t *testing.T) {
			owned, err := s.CanvasOwned(t.Context(), db.Read(t.Context()), ben.UID, canvas.CanvasID)
			require.NoError(t, err)
			require.False(t, owned)
			owned, err = s.CanvasOwned(t.Context(), db.Read(t.Context()), anna.UID, canvas.CanvasID)
			require.NoError(t, err)
			require.True(t, owned)
		},
	}
}

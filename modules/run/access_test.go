package run_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
		"Renew":   "renews what a process runs, for all users",
		"Expired": "is the reaper's, for all users",
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := newService(t, db)
		ctx := t.Context()
		canvas, err := s.CreateCanvas(ctx, anna, "hers")
		require.NoError(t, err)
		r := create(t, s, anna, run.CreateParams{Title: "hers"})

		tries := foreignTries(s, db, r, canvas)
		for m := range reflect.TypeFor[*run.Service]().Methods() {
			try, tried := tries[m.Name]
			if _, excused := system[m.Name]; excused {
				require.False(t, tried, m.Name)
				continue
			}
			require.True(t, tried, "%s is not tried as another user", m.Name)
			try(ctx, t)
		}

		got, err := s.Get(ctx, anna, r.ResultID, nil)
		require.NoError(t, err)
		require.Equal(t, r, got)
		require.Len(t, events(t, s, r, 0, 10), 1)
	})
}

func foreignTries(s *run.Service, db *database.DB, r run.Run, canvas run.Canvas) map[string]func(context.Context, *testing.T) {
	type tries = map[string]func(context.Context, *testing.T)
	his := run.Ref{UID: ben.UID, ResultID: r.ResultID, Version: r.Version}
	return tries{
		"Create": func(ctx context.Context, t *testing.T) {
			_, err := s.Create(ctx, ben, run.CreateParams{ResultID: r.ResultID})
			require.ErrorIs(t, err, run.ErrMissing)
			_, err = s.Create(ctx, ben, run.CreateParams{CanvasID: canvas.CanvasID})
			require.ErrorIs(t, err, run.ErrCanvasMissing)
		},
		"Get": func(ctx context.Context, t *testing.T) {
			_, foreign := s.Get(ctx, ben, r.ResultID, nil)
			_, absent := s.Get(ctx, ben, "ar-none", nil)
			require.ErrorIs(t, foreign, run.ErrMissing)
			require.Equal(t, absent, foreign)
		},
		"List": func(ctx context.Context, t *testing.T) {
			runs, err := s.List(ctx, ben, httpapi.PageQuery{PageSize: 10})
			require.NoError(t, err)
			require.Empty(t, runs.Items)
			require.Zero(t, *runs.Total)
		},
		"Owns": func(ctx context.Context, t *testing.T) {
			owned, err := s.Owns(ctx, his)
			require.NoError(t, err)
			require.False(t, owned)
			owned, err = s.Owns(ctx, r.Ref())
			require.NoError(t, err)
			require.True(t, owned)
		},
		"Append": func(ctx context.Context, t *testing.T) {
			require.ErrorIs(t, db.InTx(ctx, func(tx database.Tx) error {
				_, err := s.Append(ctx, tx, his, run.NewEvent{Type: run.Log})
				return err
			}), run.ErrMissing)
		},
		"Finish": func(ctx context.Context, t *testing.T) {
			require.ErrorIs(t, db.InTx(ctx, func(tx database.Tx) error {
				return s.Finish(ctx, tx, his, run.Finish{Status: run.Done})
			}), run.ErrMissing)
		},
		"Events": func(ctx context.Context, t *testing.T) {
			got, err := s.Events(ctx, ben, run.EventFilter{ResultID: r.ResultID, Version: r.Version, Limit: 10})
			require.NoError(t, err)
			require.Empty(t, got)
		},
		"Register": func(ctx context.Context, t *testing.T) {
			for _, p := range []run.OutsideParams{{ResultID: r.ResultID, Version: r.Version}, {ResultID: r.ResultID, Version: 7}} {
				require.ErrorIs(t, db.InTx(ctx, func(tx database.Tx) error { _, err := s.Register(ctx, tx, ben, p); return err }), run.ErrMissing)
			}
			require.ErrorIs(t, db.InTx(ctx, func(tx database.Tx) error {
				_, err := s.Register(ctx, tx, ben, run.OutsideParams{CanvasID: canvas.CanvasID})
				return err
			}), run.ErrCanvasMissing)
		},
		"Prolong": func(ctx context.Context, t *testing.T) {
			until := time.Now().Add(time.Hour)
			p := run.OutsideParams{ResultID: "ar-outside", Until: until}
			require.NoError(t, db.InTx(ctx, func(tx database.Tx) error { _, err := s.Register(ctx, tx, anna, p); return err }))
			require.NoError(t, db.InTx(ctx, func(tx database.Tx) error {
				return s.Prolong(ctx, tx, run.Ref{UID: ben.UID, ResultID: p.ResultID}, until.Add(time.Hour))
			}))
			got, err := s.Get(ctx, anna, p.ResultID, nil)
			require.NoError(t, err)
			require.WithinDuration(t, until, got.ExpiresAt, time.Second)
		},
		"AddMessage": func(ctx context.Context, t *testing.T) {
			require.ErrorIs(t, db.InTx(ctx, func(tx database.Tx) error {
				return s.AddMessage(ctx, tx, his, run.NewMessage{Event: 1, Type: run.Human, Content: "his"})
			}), run.ErrMissing)
			require.NoError(t, db.InTx(ctx, func(tx database.Tx) error {
				return s.AddMessage(ctx, tx, r.Ref(), run.NewMessage{Event: 1, MessageID: "am-hers", Type: run.Human, Content: "hers"})
			}))
		},
		"ChangeMessage": func(ctx context.Context, t *testing.T) {
			require.NoError(t, db.InTx(ctx, func(tx database.Tx) error {
				return s.ChangeMessage(ctx, tx, his, run.MessageChange{MessageID: "am-hers", Content: new("his")})
			}), "a message need not be there")
			got, err := s.Messages(ctx, anna, run.MessageFilter{ResultID: r.ResultID, Version: r.Version})
			require.NoError(t, err)
			require.Equal(t, "hers", got[0].Content)
		},
		"Messages": func(ctx context.Context, t *testing.T) {
			got, err := s.Messages(ctx, ben, run.MessageFilter{ResultID: r.ResultID, Version: r.Version})
			require.NoError(t, err)
			require.Empty(t, got)
		},
		"CreateCanvas": func(ctx context.Context, t *testing.T) {
			_, err := s.CreateCanvas(ctx, ben, "his")
			require.NoError(t, err)
		},
		"Canvases": func(ctx context.Context, t *testing.T) {
			hers, err := s.Canvases(ctx, anna, httpapi.PageQuery{})
			require.NoError(t, err)
			require.Empty(t, hers.NextCursor)
			require.Equal(t, []run.Canvas{canvas}, hers.Items)
			his, err := s.Canvases(ctx, ben, httpapi.PageQuery{})
			require.NoError(t, err)
			require.NotContains(t, his.Items, canvas)
		},
		"CanvasOwned": func(ctx context.Context, t *testing.T) {
			owned, err := s.CanvasOwned(ctx, db.Read(ctx), ben.UID, canvas.CanvasID)
			require.NoError(t, err)
			require.False(t, owned)
			owned, err = s.CanvasOwned(ctx, db.Read(ctx), anna.UID, canvas.CanvasID)
			require.NoError(t, err)
			require.True(t, owned)
		},
	}
}

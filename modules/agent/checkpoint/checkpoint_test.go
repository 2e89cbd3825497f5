package checkpoint_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/accesstest"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/agent/checkpoint"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

var anna, ben = actor.Actor{UID: "u-anna", KeyID: "k-1"}, actor.Actor{UID: "u-ben"}

// each runs a test with a run of anna's.
func each(t *testing.T, test func(t *testing.T, db *database.DB, s *checkpoint.Store, r run.Ref)) {
	t.Helper()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES (?, 'a'), (?, 'b')", anna.UID, ben.UID).Error
		}))
		r, err := run.New(run.Deps{DB: db, Owner: "gone"}).Service.Create(t.Context(), anna, run.CreateParams{Type: "skill"})
		require.NoError(t, err)
		test(t, db, checkpoint.New(db), r.Ref())
	})
}

func answer(id, name string) model.Item {
	return model.Item(`{"type":"function_call","call_id":"` + id + `","name":"` + name + `","arguments":"{}"}`)
}

func addition(r run.Ref, n int, shown map[string]record.Shown, items ...model.Item) checkpoint.Addition {
	return checkpoint.Addition{
		Run: r, Number: n,
		Step: checkpoint.Step{Step: loop.Step{Items: items, Requests: n}, Shown: shown},
		Mine: func(database.Tx) error { return nil },
	}
}

func begin(t *testing.T, db *database.DB, s *checkpoint.Store, r run.Ref) error {
	t.Helper()
	return db.InTx(t.Context(), func(tx database.Tx) error {
		return s.Begin(tx, r, checkpoint.Origin{Actor: anna, Request: []byte(`{"Query":"Hi"}`)})
	})
}

// What was kept is read back as it was, step after step.
func TestTurns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db *database.DB, s *checkpoint.Store, r run.Ref) {
		ctx := t.Context()
		_, err := s.Load(ctx, r)
		require.ErrorIs(t, err, checkpoint.ErrNone)
		require.NoError(t, begin(t, db, s, r))
		fresh, err := s.Load(ctx, r)
		require.NoError(t, err, "before the model has answered, too")
		require.Zero(t, fresh.Steps)
		require.JSONEq(t, `{"Query":"Hi"}`, string(fresh.Request))
		user, first, output, second := model.User("Hi \x00 \xff"), answer("p1", "one"), model.Output("p1", "1"), answer("p2", "two")
		require.NoError(t, s.Add(ctx, addition(r, 1, map[string]record.Shown{"p1": {CallID: "c1", Event: 7}}, user, first)))
		require.NoError(t, s.Add(ctx, addition(r, 2, map[string]record.Shown{"p2": {CallID: "c2"}}, output, second)))
		got, err := s.Load(ctx, r)
		require.NoError(t, err)
		require.Equal(t, anna, got.Actor)
		require.JSONEq(t, `{"Query":"Hi"}`, string(got.Request))
		require.Equal(t, []model.Item{user, first, output, second}, got.History)
		require.Equal(t, []model.Call{{ID: "p2", Name: "two", Arguments: "{}"}}, got.Last.Calls())
		require.Equal(t, map[string]record.Shown{"p2": {CallID: "c2"}}, got.Last.Shown)
		require.Equal(t, 2, got.Steps)

		require.Error(t, s.Add(ctx, addition(r, 2, nil, second)), "two processes cannot take the same step")
		gone := addition(r, 3, nil, second)
		gone.Mine = func(database.Tx) error { return run.ErrTaken }
		require.ErrorIs(t, s.Add(ctx, gone), run.ErrTaken)

		require.NoError(t, db.InTx(ctx, func(tx database.Tx) error { return s.Continue(tx, r) }))
		got, err = s.Load(ctx, r)
		require.NoError(t, err)
		require.Equal(t, 1, got.Continued)
		refs, err := s.Orphans(ctx, 10)
		require.NoError(t, err)
		require.Equal(t, []run.Ref{r}, refs)
		require.NoError(t, db.InTx(ctx, func(tx database.Tx) error { return s.Drop(tx, r) }))
		refs, err = s.Orphans(ctx, 10)
		require.NoError(t, err)
		require.Empty(t, refs)
	})
}

// Nobody goes on with a turn of which it is not known what became of a call.
func TestTurnsWithUnknownCalls(t *testing.T) {
	t.Parallel()
	for name, shown := range map[string]map[string]record.Shown{
		"without an id":        {"p1": {}},
		"of which one is left": {"p2": {CallID: "c2"}},
		"with one id twice":    {"p1": {CallID: "c1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, db *database.DB, s *checkpoint.Store, r run.Ref) {
				require.NoError(t, begin(t, db, s, r))
				items := []model.Item{answer("p1", "one")}
				if shown["p1"].CallID != "" {
					items = append(items, answer("p1", "two"))
				}
				require.NoError(t, s.Add(t.Context(), addition(r, 1, shown, items...)))
				_, err := s.Load(t.Context(), r)
				require.ErrorIs(t, err, checkpoint.ErrNone)
			})
		})
	}
}

func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db *database.DB, s *checkpoint.Store, r run.Ref) {
		require.NoError(t, begin(t, db, s, r))
		require.NoError(t, s.Add(t.Context(), addition(r, 1, map[string]record.Shown{"p1": {CallID: "c1"}}, answer("p1", "one"))))
		his := run.Ref{UID: ben.UID, ResultID: r.ResultID, Version: r.Version}
		in := func(work func(tx database.Tx) error) error { return db.InTx(t.Context(), work) }
		accesstest.Each(t, reflect.TypeFor[*checkpoint.Store](), map[string]func(t *testing.T){
			"Begin": func(t *testing.T) { require.Error(t, begin(t, db, s, his), "it is not his") },
			"Add": func(t *testing.T) {
				a := addition(his, 2, nil, answer("p2", "two"))
				a.Mine = func(database.Tx) error { return errors.New("it is not his") }
				require.Error(t, s.Add(t.Context(), a))
			},
			"Load": func(t *testing.T) {
				_, err := s.Load(t.Context(), his)
				require.ErrorIs(t, err, checkpoint.ErrNone)
			},
			"Continue": func(t *testing.T) {
				require.ErrorIs(t, in(func(tx database.Tx) error { return s.Continue(tx, his) }), checkpoint.ErrNone)
			},
			"Drop": func(t *testing.T) { require.NoError(t, in(func(tx database.Tx) error { return s.Drop(tx, his) })) },
		}, map[string]string{"Orphans": "is for all users"})
		got, err := s.Load(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, 1, got.Steps, "hers is as it was")
	})
}

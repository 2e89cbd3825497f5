package run_test

import (
	"errors"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portico-run/portico/modules/internal/actor"
	"github.com/portico-run/portico/modules/internal/database"
	"github.com/portico-run/portico/modules/internal/database/databasetest"
	"github.com/portico-run/portico/modules/internal/errs"
	"github.com/portico-run/portico/modules/internal/httpapi"
	"github.com/portico-run/portico/modules/run"
)

var (
	alice = actor.Actor{UID: "u-alice"}
	bob   = actor.Actor{UID: "u-bob"}
)

func setup(t *testing.T, db *database.DB) *run.Service {
	t.Helper()
	err := db.InTx(t.Context(), func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES ('u-alice', 'alice'), ('u-bob', 'bob')").Error
	})
	if err != nil {
		t.Fatal(err)
	}
	return run.New(run.Deps{DB: db, Owner: "p-1", Lease: time.Minute}).Service
}

func create(t *testing.T, s *run.Service, p run.CreateParams) run.Run {
	t.Helper()
	r, err := s.Create(t.Context(), alice, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func appendLog(t *testing.T, s *run.Service, r run.Run, content string) error {
	t.Helper()
	return s.DB.InTx(t.Context(), func(tx database.Tx) error {
		_, err := s.Append(t.Context(), tx, r.UID, r.ResultID, r.Version, run.NewEvent{Type: run.Log, Payload: run.LogLine{Content: content}})
		return err
	})
}

func finish(t *testing.T, s *run.Service, r run.Run, f run.Finish) error {
	t.Helper()
	return s.DB.InTx(t.Context(), func(tx database.Tx) error {
		return s.Finish(t.Context(), tx, r.UID, r.ResultID, r.Version, f)
	})
}

func TestJournalOfARun(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := setup(t, db)
		r := create(t, s, run.CreateParams{Type: "skill", Title: "t", Input: map[string]string{"query": "q"}, Toolsets: []string{"demo"}})
		if r.Status != run.Running || r.Version != 0 || r.PTCEnabled {
			t.Errorf("a new run is %+v", r)
		}
		if err := appendLog(t, s, r, "hello"); err != nil {
			t.Fatal(err)
		}
		if err := finish(t, s, r, run.Finish{Status: run.Finished, PTCEnabled: true}); err != nil {
			t.Fatal(err)
		}
		if err := appendLog(t, s, r, "late"); !errors.Is(err, run.ErrEnded) {
			t.Errorf("append after the end: %v", err)
		}
		if err := finish(t, s, r, run.Finish{Status: run.Error}); !errors.Is(err, run.ErrEnded) {
			t.Errorf("second end: %v", err)
		}
		events, err := s.Events(t.Context(), alice, r.ResultID, 0, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		var types []run.EventType
		for i, e := range events {
			types = append(types, e.Type)
			if e.Seq != int64(i+1) {
				t.Errorf("event %d has seq %d", i, e.Seq)
			}
		}
		if diff := cmp.Diff([]run.EventType{run.Start, run.Log, run.End}, types); diff != "" {
			t.Error(diff)
		}
		got, err := s.Get(t.Context(), alice, r.ResultID, nil)
		if err != nil || got.Status != run.Finished || !got.PTCEnabled || string(got.Input) != `{"query":"q"}` {
			t.Errorf("the ended run is %+v, %v", got, err)
		}
	})
}

func TestRunsAreContinuedAsVersions(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := setup(t, db)
		first := create(t, s, run.CreateParams{ResultID: "ar-mine"})
		if _, err := s.Create(t.Context(), alice, run.CreateParams{ResultID: "ar-mine"}); errs.CodeOf(err) != errs.Conflict {
			t.Errorf("continuing a running run: %v", err)
		}
		if err := finish(t, s, first, run.Finish{Status: run.Error, Errors: []string{"boom"}}); err != nil {
			t.Fatal(err)
		}
		if second := create(t, s, run.CreateParams{ResultID: "ar-mine"}); second.Version != 1 {
			t.Errorf("the second version is %d", second.Version)
		}
		zero := 0
		if got, err := s.Get(t.Context(), alice, "ar-mine", &zero); err != nil || !cmp.Equal(got.Errors, []string{"boom"}) {
			t.Errorf("version 0 is %+v, %v", got, err)
		}
		if got, err := s.Get(t.Context(), alice, "ar-mine", nil); err != nil || got.Version != 1 {
			t.Errorf("the newest is %+v, %v", got, err)
		}
	})
}

func TestSeqIsTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := setup(t, db)
		r := create(t, s, run.CreateParams{})
		const writers, each = 8, 10
		stop, seen := make(chan struct{}), make(chan int, 1)
		go func() { // reads after its cursor, as a stream does
			var cursor int64
			for n := 0; ; {
				events, err := s.Events(t.Context(), alice, r.ResultID, 0, cursor, 1000)
				if err != nil {
					t.Error(err)
				}
				for _, e := range events {
					if e.Seq != cursor+1 {
						t.Errorf("seq %d follows %d: an event was committed late", e.Seq, cursor)
					}
					cursor = e.Seq
					n++
				}
				if len(events) == 0 {
					select {
					case <-stop:
						seen <- n
						return
					default:
					}
				}
			}
		}()
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					if err := appendLog(t, s, r, strconv.Itoa(w*each+i)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		close(stop)
		if n := <-seen; n != writers*each+1 {
			t.Errorf("the reader saw %d events, want %d", n, writers*each+1)
		}
	})
}

func TestLeases(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := setup(t, db)
		create(t, s, run.CreateParams{})
		later := database.Now().Add(2 * time.Minute)
		if gone, err := s.Expired(t.Context(), later, 10); err != nil || len(gone) != 1 {
			t.Errorf("expired: %v, %v", gone, err)
		}
		if err := s.Renew(t.Context(), "p-1", later.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if gone, err := s.Expired(t.Context(), later, 10); err != nil || len(gone) != 0 {
			t.Errorf("expired after a renewal: %v, %v", gone, err)
		}
	})
}

func TestRowsMatchTheSchema(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, row := range run.Rows() {
			databasetest.CheckRow(t, db, row)
		}
	})
}

// TestAnotherTenant tries every method of the service as another user.
func TestAnotherTenant(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := setup(t, db)
		canvas, err := s.CreateCanvas(t.Context(), alice, "mine")
		if err != nil {
			t.Fatal(err)
		}
		r := create(t, s, run.CreateParams{CanvasID: canvas.CanvasID})
		page := httpapi.PageQuery{Limit: 10}
		tried := map[string]func(){
			"Create": func() {
				if _, err := s.Create(t.Context(), bob, run.CreateParams{ResultID: r.ResultID}); !errors.Is(err, run.ErrMissing) {
					t.Errorf("continue a foreign run: %v", err)
				}
				if _, err := s.Create(t.Context(), bob, run.CreateParams{CanvasID: canvas.CanvasID}); !errors.Is(err, run.ErrCanvasMissing) {
					t.Errorf("use a foreign canvas: %v", err)
				}
			},
			"Get": func() {
				if _, err := s.Get(t.Context(), bob, r.ResultID, nil); !errors.Is(err, run.ErrMissing) {
					t.Errorf("%v", err)
				}
			},
			"List": func() {
				if got, err := s.List(t.Context(), bob, page); err != nil || len(got.Items) != 0 {
					t.Errorf("%v, %v", got, err)
				}
			},
			"Owns": func() {
				if ok, err := s.Owns(t.Context(), db.Read(t.Context()), bob.UID, r.ResultID, 0); ok || err != nil {
					t.Errorf("%v, %v", ok, err)
				}
			},
			"CanvasOwned": func() {
				if ok, err := s.CanvasOwned(t.Context(), db.Read(t.Context()), bob.UID, canvas.CanvasID); ok || err != nil {
					t.Errorf("%v, %v", ok, err)
				}
			},
			"Append": func() {
				foreign := r
				foreign.UID = bob.UID
				if err := appendLog(t, s, foreign, "x"); !errors.Is(err, run.ErrEnded) {
					t.Errorf("%v", err)
				}
			},
			"Finish": func() {
				foreign := r
				foreign.UID = bob.UID
				if err := finish(t, s, foreign, run.Finish{Status: run.Aborted}); !errors.Is(err, run.ErrEnded) {
					t.Errorf("%v", err)
				}
			},
			"Events": func() {
				if _, err := s.Events(t.Context(), bob, r.ResultID, 0, 0, 10); !errors.Is(err, run.ErrMissing) {
					t.Errorf("%v", err)
				}
			},
			"Canvases": func() {
				if got, err := s.Canvases(t.Context(), bob, page); err != nil || len(got.Items) != 0 {
					t.Errorf("%v, %v", got, err)
				}
			},
			"CreateCanvas": func() {}, // makes a row of the actor's and reads none
			"Renew":        func() {}, // a system job over all users
			"Expired":      func() {}, // a system job over all users
		}
		for m := range reflect.TypeFor[*run.Service]().Methods() {
			try, ok := tried[m.Name]
			if !ok {
				t.Errorf("%s was never tried as another tenant", m.Name)
				continue
			}
			try()
		}
		if got, err := s.Get(t.Context(), alice, r.ResultID, nil); err != nil || got.Status != run.Running {
			t.Errorf("the run was touched: %+v, %v", got, err)
		}
	})
}

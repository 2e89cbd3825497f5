package erase_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/discard"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/erase"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/run/retention/holdings"
)

// storage deletes what it is let delete.
type storage struct {
	objectstore.Store

	remove func() error
}

func (s *storage) Delete(ctx context.Context, key string) error {
	if err := s.remove(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

// Stored results of a run's calls go with it, whatever the storage says and wherever the
// process stops, and those of other runs and users stay.
func TestStoredResultsGo(t *testing.T) {
	t.Parallel()
	ends := map[string]func() error{
		"storage refuses": func() error { return errors.New("the storage refuses") },
		"process stops":   func() error { panic("it stopped") },
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		runs, _ := services(t, db)
		ctx := t.Context()
		store := &storage{Store: objects(t)}
		s := erase.New(erase.Deps{DB: db, Objects: store})
		call := func(r run.Run, callID, status, output string) {
			t.Helper()
			require.NoError(t, db.InTx(ctx, func(tx database.Tx) error {
				return database.Unscoped(tx.Handle).Exec(`INSERT INTO tool_call_results (result_id, call_id, uid, toolset_id, tool_name, input, output, status)
					VALUES (?, ?, ?, 'demo', 'x', '{}', ?, ?)`, r.ResultID, callID, r.UID, output, status).Error
			}))
		}
		stored := func(r run.Run, callID string) {
			t.Helper()
			call(r, callID, "completed", `{"truncated":{"bytes":5,"ref":"/v1/tool/call/output?toolCallId=`+callID+`"}}`)
			require.NoError(t, store.Put(ctx, record.OutputKey(r.UID, callID), strings.NewReader("whole"), ""))
		}
		leaving := func() (n int64) {
			t.Helper()
			require.NoError(t, database.Unscoped(db.Read(ctx)).Table("object_deletions").Count(&n).Error)
			return n
		}
		agree := func(named int) {
			t.Helper()
			got, err := holdings.New(holdings.Deps{DB: db, Objects: store}).Verify(ctx)
			require.NoError(t, err)
			require.Equal(t, holdings.Report{Named: named}, got)
		}
		his := create(t, runs, ben, run.CreateParams{Title: "his"})
		stored(his, "his")
		for name, end := range ends {
			r := create(t, runs, anna, run.CreateParams{Title: "hers"})
			require.NoError(t, finish(t, db, runs, r, run.Finish{Status: run.Done}))
			stored(r, "whole"+name[:1])
			call(r, "short"+name[:1], "completed", "{}")
			call(r, "failed"+name[:1], "failed", "{}")
			store.remove = end
			require.ErrorIs(t, s.Delete(ctx, ben, r.ResultID), run.ErrMissing)
			require.Zero(t, leaving(), "another user begins nothing")
			agree(2)
			func() {
				defer func() { _ = recover() }() // that is where the process stops
				require.NoError(t, s.Delete(ctx, anna, r.ResultID), name)
			}()
			_, err := runs.Get(ctx, anna, r.ResultID, nil)
			require.ErrorIs(t, err, run.ErrMissing)
			require.EqualValues(t, 2, leaving(), name)
			agree(1)
			store.remove = func() error { return nil }
			_, err = discard.New(db, store).Run(ctx, db.Now().Add(time.Hour))
			require.NoError(t, err)
			require.Zero(t, leaving())
			keys, err := store.List(ctx, "")
			require.NoError(t, err)
			require.Equal(t, []string{record.OutputKey(ben.UID, "his")}, keys)
		}
		r := create(t, runs, anna, run.CreateParams{Title: "hers"})
		require.NoError(t, finish(t, db, runs, r, run.Finish{Status: run.Done}))
		stored(r, "at-once")
		require.NoError(t, s.Delete(ctx, anna, r.ResultID))
		require.Zero(t, leaving())
		agree(1)
	})
}

package stored_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/accesstest"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/agent/openai/stored"
)

var anna, ben = actor.Actor{UID: "u-anna"}, actor.Actor{UID: "u-ben"}

func each(t *testing.T, settings stored.Settings, test func(t *testing.T, s *stored.Service, now *time.Time)) {
	t.Helper()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, row := range stored.Rows() {
			databasetest.CheckRow(t, db, row)
		}
		for _, a := range []actor.Actor{anna, ben} {
			require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
				return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES (?, ?)", a.UID, a.UID).Error
			}))
		}
		now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
		test(t, stored.New(stored.Deps{DB: db, Settings: settings, Now: func() time.Time { return now }}), &now)
	})
}

func usual() stored.Settings {
	return stored.Settings{Life: time.Hour, Max: 5, MaxBytes: 1 << 20}
}

func response(id, previous string) stored.Response {
	return stored.Response{
		ID: id, Previous: previous, Input: []json.RawMessage{json.RawMessage(`{"b":1,  "a":"\u0000"}`)},
		Answer: json.RawMessage(`{"id":"` + id + `","output":[{"type":"message"}]}`),
	}
}

func ids(chain []stored.Response) (list []string) {
	for _, r := range chain {
		list = append(list, r.ID)
	}
	return list
}

func TestKeepsWhatClientsGotUntilItIsOver(t *testing.T) {
	t.Parallel()
	each(t, usual(), func(t *testing.T, s *stored.Service, now *time.Time) {
		want := response("resp_1", "")
		require.NoError(t, s.Save(t.Context(), anna, want))
		got, err := s.Get(t.Context(), anna, "resp_1")
		require.NoError(t, err)
		require.Equal(t, string(want.Answer), string(got.Answer))
		require.JSONEq(t, string(want.Input[0]), string(got.Input[0]))
		output, err := got.Output()
		require.NoError(t, err)
		require.Len(t, output, 1)

		*now = now.Add(time.Hour)
		_, err = s.Get(t.Context(), anna, "resp_1")
		require.ErrorIs(t, err, stored.ErrMissing)
		require.ErrorIs(t, s.Delete(t.Context(), anna, "resp_1"), stored.ErrMissing)
		require.NoError(t, s.Purge(t.Context()))
		*now = now.Add(-time.Hour)
		_, err = s.Get(t.Context(), anna, "resp_1")
		require.ErrorIs(t, err, stored.ErrMissing, "it is gone")
	})
}

func TestConversationsArePutTogether(t *testing.T) {
	t.Parallel()
	each(t, usual(), func(t *testing.T, s *stored.Service, _ *time.Time) {
		for _, r := range []stored.Response{response("resp_1", ""), response("resp_2", "resp_1"), response("resp_3", "resp_2"), response("resp_fork", "resp_1")} {
			require.NoError(t, s.Save(t.Context(), anna, r))
		}
		chain, err := s.Chain(t.Context(), anna, "resp_3")
		require.NoError(t, err)
		require.Equal(t, []string{"resp_1", "resp_2", "resp_3"}, ids(chain))
		chain, err = s.Chain(t.Context(), anna, "resp_fork")
		require.NoError(t, err)
		require.Equal(t, []string{"resp_1", "resp_fork"}, ids(chain))

		require.NoError(t, s.Delete(t.Context(), anna, "resp_1"))
		_, err = s.Chain(t.Context(), anna, "resp_3")
		require.ErrorIs(t, err, stored.ErrBroken)
		_, err = s.Chain(t.Context(), anna, "resp_1")
		require.ErrorIs(t, err, stored.ErrMissing)
	})
}

func TestConversationsAreBounded(t *testing.T) {
	t.Parallel()
	each(t, stored.Settings{Life: time.Hour, Max: 2000, MaxBytes: 1 << 30}, func(t *testing.T, s *stored.Service, _ *time.Time) {
		previous := ""
		for i := range 1001 {
			id := fmt.Sprintf("resp_%d", i)
			require.NoError(t, s.Save(t.Context(), anna, response(id, previous)))
			previous = id
		}
		_, err := s.Chain(t.Context(), anna, "resp_999")
		require.NoError(t, err)
		_, err = s.Chain(t.Context(), anna, "resp_1000")
		require.ErrorIs(t, err, stored.ErrLong)
	})
}

func TestTheOldestMakeRoom(t *testing.T) {
	t.Parallel()
	each(t, usual(), func(t *testing.T, s *stored.Service, _ *time.Time) {
		there := func() (list []string) {
			for i := range 8 {
				if _, err := s.Get(t.Context(), anna, fmt.Sprintf("resp_%d", i)); err == nil {
					list = append(list, fmt.Sprint(i))
				}
			}
			return list
		}
		require.NoError(t, s.Save(t.Context(), ben, response("resp_ben", "")))
		for i := range 7 {
			require.NoError(t, s.Save(t.Context(), anna, response(fmt.Sprintf("resp_%d", i), "")))
		}
		require.Equal(t, []string{"2", "3", "4", "5", "6"}, there())

		large := response("resp_7", "")
		large.Answer = json.RawMessage(`"` + strings.Repeat("x", 1<<20-150) + `"`)
		require.NoError(t, s.Save(t.Context(), anna, large))
		require.Equal(t, []string{"6", "7"}, there())
		_, err := s.Get(t.Context(), ben, "resp_ben")
		require.NoError(t, err, "another user's stays")

		large.ID, large.Answer = "resp_8", json.RawMessage(`"`+strings.Repeat("x", 1<<20)+`"`)
		require.ErrorContains(t, s.Save(t.Context(), anna, large), "may be kept")
	})
}

func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	each(t, usual(), func(t *testing.T, s *stored.Service, _ *time.Time) {
		require.NoError(t, s.Save(t.Context(), anna, response("resp_1", "")))
		require.NoError(t, s.Save(t.Context(), ben, response("resp_2", "resp_1")))
		tries := map[string]func(t *testing.T){
			"Get": func(t *testing.T) {
				_, err := s.Get(t.Context(), ben, "resp_1")
				require.ErrorIs(t, err, stored.ErrMissing)
			},
			"Chain": func(t *testing.T) {
				_, err := s.Chain(t.Context(), ben, "resp_1")
				require.ErrorIs(t, err, stored.ErrMissing)
				_, err = s.Chain(t.Context(), ben, "resp_2")
				require.ErrorIs(t, err, stored.ErrBroken, "nor by an answer of his own")
			},
			"Delete": func(t *testing.T) { require.ErrorIs(t, s.Delete(t.Context(), ben, "resp_1"), stored.ErrMissing) },
			"Save": func(t *testing.T) {
				require.Error(t, s.Save(t.Context(), ben, response("resp_1", "")))
			},
		}
		accesstest.Each(t, reflect.TypeFor[*stored.Service](), tries, map[string]string{"Purge": "deletes what is over, of all users"})
		_, err := s.Get(t.Context(), anna, "resp_1")
		require.NoError(t, err, "it is still there")
	})
}

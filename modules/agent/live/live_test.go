package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/agent/live"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// gratis is a billing that charges nothing.
type gratis struct{}

func (gratis) ChargeModel(context.Context, database.Tx, billing.ModelCharge) error { return nil }

// showing is a run that a writer shows.
type showing struct {
	anna   actor.Actor
	runs   *run.Service
	run    run.Run
	writer *live.Writer
}

func show(t *testing.T, db *database.DB) showing {
	t.Helper()
	s := showing{anna: actor.Actor{UID: "u-anna"}, runs: run.New(run.Deps{DB: db, Owner: "test"}).Service}
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES (?, 'Anna')", s.anna.UID).Error
	}))
	var err error
	s.run, err = s.runs.Create(t.Context(), s.anna, run.CreateParams{Title: "Shown"})
	require.NoError(t, err)
	s.writer = live.New(t.Context(), live.Deps{
		DB: db, Runs: s.runs, Billing: gratis{}, Flush: time.Millisecond, Price: func(string) price.Tokens { return price.Tokens{} }, NewCallID: func() string { return ids.Calls{}.New(ids.Agent) },
		Logger: slog.New(slog.DiscardHandler),
	}, s.run)
	return s
}

func (s showing) events(t *testing.T) []run.Event {
	t.Helper()
	events, err := s.runs.Events(t.Context(), s.anna, run.EventFilter{ResultID: s.run.ResultID, Version: s.run.Version, Limit: 10_000})
	require.NoError(t, err)
	return events
}

// message is the only one of the run.
func (s showing) message(t *testing.T) run.Message {
	t.Helper()
	messages, err := s.runs.Messages(t.Context(), s.anna, run.MessageFilter{ResultID: s.run.ResultID, Version: s.run.Version})
	require.NoError(t, err)
	require.Len(t, messages, 1)
	return messages[0]
}

// A model that writes does not wait for the database: while a transaction holds
// the run, its pieces are taken at once. They are shown in order afterwards,
// each once, and make up the message.
func TestAModelDoesNotWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := show(t, db)
		s.writer.Abandoned = func(_ context.Context, c loop.Call, _ record.Shown) { t.Errorf("%s is abandoned", c.Name) }

		held, release := make(chan struct{}), make(chan struct{})
		slow := make(chan error, 1)
		go func() {
			slow <- db.InTx(context.WithoutCancel(t.Context()), func(tx database.Tx) error {
				_, err := s.runs.Append(t.Context(), tx, s.run.Ref(), run.NewEvent{Type: run.Log, Payload: map[string]any{}})
				close(held)
				<-release
				return err
			})
		}()
		<-held
		var want strings.Builder
		taken := make(chan struct{})
		go func() {
			defer close(taken)
			pace := time.NewTicker(50 * time.Microsecond) // so that the writer runs meanwhile
			defer pace.Stop()
			for n := range 2000 {
				piece := fmt.Sprintf("%d ", n)
				want.WriteString(piece)
				s.writer.Delta(model.Delta{Kind: model.Text, Text: piece})
				<-pace.C
			}
			s.writer.Delta(model.Delta{Kind: model.Arguments, CallID: "call_1", Name: "a", Text: "{"})
			s.writer.Delta(model.Delta{Kind: model.Arguments, CallID: "call_1", Name: "a", Text: "}"})
		}()
		select {
		case <-taken:
		case <-time.After(20 * time.Second):
			t.Error("the pieces of a model wait for a transaction")
		}
		close(release)
		<-taken
		require.NoError(t, <-slow)
		require.NoError(t, s.writer.Answered(t.Context(), model.Response{Model: "m", Output: []model.Item{[]byte(`{"type":"function_call","call_id":"call_1","name":"a","arguments":"{}"}`)}}))
		s.writer.Close()

		var shown, written strings.Builder
		var kinds []string
		for _, e := range s.events(t) {
			var payload struct{ Content string }
			require.NoError(t, json.Unmarshal(e.Payload, &payload))
			switch e.Type {
			case run.Stream:
				shown.WriteString(payload.Content)
			case run.ToolCallStream:
				written.WriteString(payload.Content)
			}
			kinds = append(kinds, string(e.Type))
		}
		require.Equal(t, want.String(), shown.String())
		require.Equal(t, "{}", written.String())
		require.Equal(t, string(run.TokenUsage), kinds[len(kinds)-1])
		require.Equal(t, want.String(), s.message(t).Content)
	})
}

// gaveUp is a call that a model gave up.
type gaveUp struct {
	name  string
	shown record.Shown
}

// A call that was shown, and whose answer broke off, is ended under the id and
// at the place at which it was shown; the same call in the next answer is
// another one. What is left at the end of a run is ended and kept as well.
func TestACallOfABrokenAnswerIsEnded(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := show(t, db)
		ended := make(chan gaveUp, 10)
		s.writer.Abandoned = func(_ context.Context, c loop.Call, shown record.Shown) { ended <- gaveUp{c.Name, shown} }

		// shown waits for the nth event about a call and returns its id and number.
		shown := func(n int) record.Shown {
			var of record.Shown
			require.Eventually(t, func() bool {
				seen := 0
				for _, e := range s.events(t) {
					var payload struct{ ToolCallMeta run.CallMeta }
					require.NoError(t, json.Unmarshal(e.Payload, &payload))
					if e.Type == run.ToolCallStream {
						if seen++; seen == n {
							of = record.Shown{CallID: payload.ToolCallMeta.ToolCallID, Event: e.Seq}
						}
					}
				}
				return of.CallID != ""
			}, time.Minute, time.Millisecond)
			return of
		}
		s.writer.Delta(model.Delta{Kind: model.Arguments, CallID: "call_1", Name: "a", Text: "{"})
		first := shown(1)
		s.writer.Delta(model.Delta{Kind: model.Restart})
		require.Equal(t, gaveUp{"a", first}, <-ended)

		s.writer.Delta(model.Delta{Kind: model.Arguments, CallID: "call_1", Name: "a", Text: "{"})
		second := shown(2)
		require.NotEqual(t, first.CallID, second.CallID)
		s.writer.Delta(model.Delta{Kind: model.Text, Text: "Half of"})
		s.writer.Close()
		require.Equal(t, gaveUp{"a", second}, <-ended)
		require.Equal(t, "Half of", s.message(t).Content, "what was shown of the last answer is kept")
		require.Less(t, s.message(t).Seq, second.Event)
	})
}

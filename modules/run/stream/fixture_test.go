package stream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/run/stream"
)

func TestMain(m *testing.M) {
	// Connections of the database pools end on their own schedule.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"),
		// gorm never ends the sweeper of its statement cache.
		goleak.IgnoreAnyFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

var (
	anna = actor.Actor{UID: "u-anna"}
	ben  = actor.Actor{UID: "u-ben"}
)

// users takes the uid as the key.
type users struct{}

func (users) Authenticate(_ context.Context, c httpapi.Credentials) (actor.Actor, error) {
	if c.APIKey == "" {
		return actor.Actor{}, errs.New(errs.Unauthorized, "no")
	}
	return actor.Actor{UID: c.APIKey}, nil
}

// pod is one process: its own connections, its own wake-ups, its own server.
type pod struct {
	db     *database.DB
	hub    *wake.Hub
	runs   *run.Service
	module *stream.Module
	url    string
}

// openPod starts a process on the database of that address.
func openPod(t *testing.T, address string, poll time.Duration, s sse.Server) *pod {
	t.Helper()
	p := &pod{hub: &wake.Hub{}}
	p.db = databasetest.OpenURL(t, address, p.hub.Publish)
	p.runs = run.New(run.Deps{DB: p.db, Owner: "pod"}).Service
	p.module = stream.New(stream.Deps{Runs: p.runs, Sums: p.runs, Calls: record.New(record.Deps{DB: p.db, Runs: p.runs}).Service, Hub: p.hub, Poll: poll, SSE: s})
	api := httpapi.New(httpapi.Deps{Auth: users{}, Logger: slog.New(slog.DiscardHandler), BodyLimit: 1 << 20})
	p.module.Register(api)
	srv := httptest.NewServer(api)
	p.url = srv.URL
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		if err := p.module.Stop(ctx); err != nil {
			t.Error(err)
		}
		srv.Close()
	})
	return p
}

// newPod is a process on a new database with two users.
func newPod(t *testing.T, d database.Dialect, poll time.Duration, s sse.Server) *pod {
	t.Helper()
	p := openPod(t, databasetest.URL(t, d), poll, s)
	require.NoError(t, p.db.InTx(t.Context(), func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES (?, 'a'), (?, 'b')", anna.UID, ben.UID).Error
	}))
	return p
}

func (p *pod) create(t *testing.T) run.Run {
	t.Helper()
	r, err := p.runs.Create(t.Context(), anna, run.CreateParams{})
	require.NoError(t, err)
	return r
}

// call records a finished child call with its end event, in one transaction.
func (p *pod) call(ctx context.Context, r run.Run, n int) error {
	return p.db.InTx(ctx, func(tx database.Tx) error {
		id := fmt.Sprintf("ptc:%d", n)
		err := database.Unscoped(tx.Handle).Exec(`INSERT INTO tool_call_results
			(result_id, version, call_id, uid, toolset_id, tool_name, input, output, status, type)
			VALUES (?, ?, ?, ?, 'weather', 'forecast', '{"input":{}}', ?, 'completed', 'ptc')`,
			r.ResultID, r.Version, id, r.UID, strconv.Itoa(n)).Error
		if err != nil {
			return err
		}
		_, err = p.runs.Append(ctx, tx, r.Ref(), run.NewEvent{Type: run.ToolCallEnd, CallID: id})
		return err
	})
}

func (p *pod) log(ctx context.Context, r run.Run, text string) error {
	return p.db.InTx(ctx, func(tx database.Tx) error {
		_, err := p.runs.Append(ctx, tx, r.Ref(), run.NewEvent{
			Type: run.Log, Payload: map[string]any{"log": map[string]string{"content": text}},
		})
		return err
	})
}

func (p *pod) finish(ctx context.Context, r run.Run) error {
	return p.db.InTx(ctx, func(tx database.Tx) error {
		return p.runs.Finish(ctx, tx, r.Ref(), run.Finish{Status: run.Done})
	})
}

// watch opens a stream as a user. Header and query may resume it.
func (p *pod) watch(t *testing.T, who actor.Actor, resultID, query, lastEventID string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/v1/action/"+resultID+"/events"+query, nil)
	require.NoError(t, err)
	r.Header.Set("X-Api-Key", who.UID)
	if lastEventID != "" {
		r.Header.Set("Last-Event-ID", lastEventID)
	}
	transport := &http.Transport{}
	resp, err := transport.RoundTrip(r)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
	})
	return resp
}

// frame is one received event.
type frame struct {
	id   int64
	data map[string]any
}

// frames reads a stream event by event.
type frames struct{ lines *bufio.Scanner }

func framesOf(r io.Reader) frames { return frames{bufio.NewScanner(r)} }

// next returns io.EOF at the end of the stream.
func (f frames) next() (frame, error) {
	var out frame
	for f.lines.Scan() {
		line := f.lines.Text()
		switch {
		case line == "" && out.data != nil:
			return out, nil
		case strings.HasPrefix(line, "id: "):
			out.id, _ = strconv.ParseInt(line[4:], 10, 64)
		case strings.HasPrefix(line, "data: "):
			if err := json.Unmarshal([]byte(line[6:]), &out.data); err != nil {
				return out, err
			}
		case line != "" && !strings.HasPrefix(line, ":"):
			return out, fmt.Errorf("unexpected line %q", line)
		}
	}
	if err := f.lines.Err(); err != nil {
		return out, err
	}
	return out, io.EOF
}

// all reads to the end of the stream.
func (f frames) all(t *testing.T) (ids []int64, names []string) {
	t.Helper()
	for {
		e, err := f.next()
		if errors.Is(err, io.EOF) {
			return ids, names
		}
		require.NoError(t, err)
		ids = append(ids, e.id)
		names = append(names, e.data["event"].(string))
	}
}

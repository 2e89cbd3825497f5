package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/portico-run/portico/dev/demo"
	"github.com/portico-run/portico/dev/instance"
)

// floor is what the least program could be that does the same: net/http, the
// same call of the upstream, and two transactions, each of one statement, that
// leave the same behind: the record of the call, its events with their numbers,
// the usage and the balance. It checks nothing, and knows its callers by heart.
type floor struct {
	store    store
	upstream string
	client   *http.Client
	users    map[string]string // by key
}

// work is one call.
type work struct {
	id, uid, run, program string // run and program are empty outside runs
	toolset, tool         string
	input, output         string
	at                    time.Time
}

// store keeps the calls of a floor.
type store interface {
	begin(ctx context.Context, w work) error
	settle(ctx context.Context, w work) error
	// seed adds a user, and the run and the program where the caller has one.
	seed(ctx context.Context, uid string, c instance.Caller) error
	close() error
}

func newFloor(s store, upstream string) *floor {
	return &floor{store: s, upstream: upstream, client: client(), users: map[string]string{}}
}

// serve serves the floor to callers; the function ends that.
func (f *floor) serve(ctx context.Context, callers []instance.Caller) (url string, end func() error, err error) {
	for _, c := range callers {
		if _, known := f.users[c.Key]; !known {
			f.users[c.Key] = fmt.Sprintf("u%d", len(f.users))
		}
		if err := f.store.seed(ctx, f.users[c.Key], c); err != nil {
			return "", nil, err
		}
	}
	server := httptest.NewServer(f)
	return server.URL, func() error {
		server.Close()
		return f.store.close()
	}, nil
}

// ServeHTTP answers one call.
func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ToolsetKey, ToolName string
		Arguments            json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	data, err := f.call(r.Context(), work{
		id: "ptc:" + uuid.NewString(), uid: f.users[r.Header.Get("X-API-Key")], run: r.Header.Get("X-Refly-Result-Id"), program: r.Header.Get("X-Ptc-Call-Id"),
		toolset: in.ToolsetKey, tool: in.ToolName, input: string(in.Arguments),
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"success":true,"data":{"status":"success","data":%s}}`, data)
}

func (f *floor) call(ctx context.Context, w work) ([]byte, error) {
	w.at = time.Now()
	if err := f.store.begin(ctx, w); err != nil {
		return nil, err
	}
	data, err := f.ask(ctx)
	if err != nil {
		return nil, err
	}
	w.output, w.at = string(data), time.Now()
	return data, f.store.settle(ctx, w)
}

func (f *floor) ask(ctx context.Context) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.upstream+"/cities?min_population=13000000", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Demo-Key", demo.Key)
	resp, err := f.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// postgresStore is a floor's store in a PostgreSQL database of its own.
type postgresStore struct{ pool *pgxpool.Pool }

// onlyPostgres leaves room for the next version of a row beside it.
const onlyPostgres = " WITH (fillfactor = 50)"

// leanSchema has what a lean design needs: the keys that make a call unique, a
// run readable and a dead process' calls findable.
const leanSchema = `
CREATE TABLE users (uid text PRIMARY KEY, balance numeric(18, 6) NOT NULL CHECK (balance >= 0));
CREATE TABLE runs (result_id text, version integer, uid text NOT NULL, status text NOT NULL, event_seq bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (result_id, version))` + onlyPostgres + `;
CREATE TABLE calls (pk %s, call_id text NOT NULL UNIQUE, uid text NOT NULL, result_id text, version integer, ptc_call_id text,
	toolset_id text NOT NULL, tool_name text NOT NULL, input text NOT NULL, output text NOT NULL, status text NOT NULL, error text,
	lease_expires_at timestamptz, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL);
CREATE INDEX calls_uid ON calls (uid, pk);
CREATE INDEX calls_run ON calls (result_id, version);
CREATE TABLE events (result_id text, version integer, seq bigint, type text NOT NULL, call_id text, payload text NOT NULL,
	created_at timestamptz NOT NULL, PRIMARY KEY (result_id, version, seq));
CREATE TABLE usages (tool_call_id text PRIMARY KEY, uid text NOT NULL, amount numeric(18, 6) NOT NULL, due_amount numeric(18, 6) NOT NULL,
	action_result_id text, version integer, description text, created_at timestamptz NOT NULL);
CREATE INDEX usages_uid ON usages (uid, created_at);
`

func openPostgresStore(ctx context.Context, connections int) (_ *postgresStore, err error) {
	address, drop, err := instance.NewDatabase(ctx)
	if err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	c.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, errors.Join(err, drop(ctx))
	}
	if _, err := pool.Exec(ctx, fmt.Sprintf(leanSchema, "bigserial PRIMARY KEY")); err != nil {
		pool.Close()
		return nil, errors.Join(err, drop(ctx))
	}
	return &postgresStore{pool: pool}, nil
}

func (s *postgresStore) close() error {
	// The connections know the name of the database to drop.
	name := s.pool.Config().ConnConfig.Database
	config := s.pool.Config().ConnConfig.Copy()
	s.pool.Close()
	config.Database = "postgres"
	conn, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		return err
	}
	_, err = conn.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
	return errors.Join(err, conn.Close(context.Background()))
}

func (s *postgresStore) seed(ctx context.Context, uid string, c instance.Caller) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO users VALUES ($1, 1000000) ON CONFLICT DO NOTHING`, uid)
	if err != nil || c.Run == "" {
		return err
	}
	if _, err := s.pool.Exec(ctx, `INSERT INTO runs VALUES ($1, 0, $2, 'running') ON CONFLICT DO NOTHING`, c.Run, uid); err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, `INSERT INTO calls (call_id, uid, result_id, version, toolset_id, tool_name, input, output, status, created_at, updated_at)
		VALUES ($1, $2, $3, 0, 'execute_code', 'execute_code', '{}', '', 'executing', now(), now()) ON CONFLICT DO NOTHING`, c.Program, uid, c.Run)
	return err
}

// The statements of a call in a run: the program that makes it must be
// executing, and the run's row gives the events their numbers.
const (
	beginInRun = `WITH program AS (SELECT result_id, version FROM calls WHERE call_id = $1 AND uid = $2 AND status = 'executing' FOR KEY SHARE),
	run AS (UPDATE runs SET event_seq = event_seq + 1 FROM program WHERE runs.result_id = program.result_id AND runs.version = program.version
		AND uid = $2 AND status = 'running' RETURNING runs.result_id, runs.version, event_seq),
	call AS (INSERT INTO calls (call_id, uid, result_id, version, ptc_call_id, toolset_id, tool_name, input, output, status, lease_expires_at, created_at, updated_at)
		SELECT $3, $2, result_id, version, $1, $4, $5, $6, '', 'executing', $7::timestamptz + interval '15 s', $7, $7 FROM run)
	INSERT INTO events SELECT result_id, version, event_seq, 'tool_call_start', $3, '{}', $7 FROM run`
	settleInRun = `WITH call AS (UPDATE calls SET status = 'completed', output = $3, lease_expires_at = NULL, updated_at = $4
		WHERE call_id = $1 AND uid = $2 AND status = 'executing' RETURNING result_id, version),
	paid AS (UPDATE users SET balance = balance - 1 FROM call WHERE users.uid = $2 AND balance >= 1 RETURNING users.uid),
	usage AS (INSERT INTO usages SELECT $1, paid.uid, 1, 1, call.result_id, call.version, 'Tool call', $4 FROM paid, call),
	run AS (UPDATE runs SET event_seq = event_seq + 1 FROM call WHERE runs.result_id = call.result_id AND runs.version = call.version
		AND status = 'running' RETURNING runs.result_id, runs.version, event_seq)
	INSERT INTO events SELECT result_id, version, event_seq, 'tool_call_end', $1, '{}', $4 FROM run`
	beginAlone = `INSERT INTO calls (call_id, uid, toolset_id, tool_name, input, output, status, lease_expires_at, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, '', 'executing', $6::timestamptz + interval '15 s', $6, $6)`
	settleAlone = `WITH call AS (UPDATE calls SET status = 'completed', output = $3, lease_expires_at = NULL, updated_at = $4
		WHERE call_id = $1 AND uid = $2 AND status = 'executing' RETURNING uid),
	paid AS (UPDATE users SET balance = balance - 1 FROM call WHERE users.uid = $2 AND balance >= 1 RETURNING users.uid)
	INSERT INTO usages SELECT $1, uid, 1, 1, NULL, NULL, 'Tool call', $4 FROM paid`
)

var errNotWritten = errors.New("the statement wrote nothing")

func (s *postgresStore) begin(ctx context.Context, w work) error {
	if w.run == "" {
		return s.write(ctx, beginAlone, w.id, w.uid, w.toolset, w.tool, w.input, w.at)
	}
	return s.write(ctx, beginInRun, w.program, w.uid, w.id, w.toolset, w.tool, w.input, w.at)
}

func (s *postgresStore) settle(ctx context.Context, w work) error {
	if w.run == "" {
		return s.write(ctx, settleAlone, w.id, w.uid, w.output, w.at)
	}
	return s.write(ctx, settleInRun, w.id, w.uid, w.output, w.at)
}

// write runs one statement, which is one transaction.
func (s *postgresStore) write(ctx context.Context, statement string, args ...any) error {
	tag, err := s.pool.Exec(ctx, statement, args...)
	if err == nil && tag.RowsAffected() != 1 {
		return errNotWritten
	}
	return err
}

// Package apptest serves everything, wired as it is shipped, to tests of single
// modules.
package apptest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// Server is a running server with two users.
type Server struct {
	App       *app.App
	URL       string
	Anna, Ben User

	t *testing.T
}

// User is somebody with a key.
type User struct {
	actor.Actor

	Key string
}

// Serve starts a server on SQLite, with the toolsets of the demo, and stops it
// with the test. More are settings as environment variables.
func Serve(t *testing.T, toolsets string, more ...string) *Server {
	t.Helper()
	environ := Environ(t, databasetest.URL(t, database.SQLite), append([]string{"TOOLSETS_DIR=" + toolsets}, more...)...)
	values := Values(environ)
	testenv.Sandbox(t, guest.DefaultRoot(values))
	c, err := configs.Load(configs.Options{Environ: environ})
	require.NoError(t, err)
	a, err := app.Open(t.Context(), app.Options{Config: c, Environ: values, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	key, err := a.Prepare(t.Context())
	require.NoError(t, err)
	s, err := a.Start(t.Context(), configs.Options{Environ: environ})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, s.Stop(ctx))
		require.NoError(t, a.Close())
	})
	anna, err := a.Accounts.Service.UserByName(t.Context(), app.FirstUser)
	require.NoError(t, err)
	ben, err := a.Accounts.Service.CreateUser(t.Context(), "ben", "")
	require.NoError(t, err)
	who := actor.Actor{UID: ben.UID, Scope: actor.Full}
	_, theirs, err := a.Accounts.Service.CreateKey(t.Context(), who, "test", 0)
	require.NoError(t, err)
	return &Server{
		App: a, URL: "http://" + s.Addr().String(), t: t,
		Anna: User{actor.Actor{UID: anna.UID, Scope: actor.Full}, key.Reveal()}, Ben: User{who, theirs.Reveal()},
	}
}

// Environ is what a server of a test is configured with, on a database. Of a
// setting that is there twice, the last one counts. The folder of toolsets is
// that of the repository, seen from a module.
func Environ(t testing.TB, database string, more ...string) []string {
	t.Helper()
	return append([]string{
		// Programs that name no time have the longest, because the machine of a
		// test may be busy.
		"SANDBOX_TIMEOUT_MS=300000", "CODEAPI_TIMEOUT_MS=300000",
		"DATABASE_URL=" + database, "OBJECT_STORAGE_FOLDER=" + t.TempDir(), "TOOLSETS_DIR=../../configs/toolsets", "MCP_DIR=" + t.TempDir(),
		"PORTICO_LISTEN=127.0.0.1:0", "DEMO_LISTEN=" + testenv.FreeAddress(t), "PTC_MODE=on", "SANDBOX_POOL=1", "SANDBOX_PRELOAD=json",
		"ENCRYPTION_KEY=" + strings.Repeat("0a", 32), "JWT_SECRET=" + strings.Repeat("s", 32),
		"HOME=" + os.Getenv("HOME"), "XDG_DATA_HOME=" + os.Getenv("XDG_DATA_HOME"),
	}, more...)
}

// Values are the variables of an environment by name.
func Values(environ []string) map[string]string {
	values := map[string]string{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		values[name] = value
	}
	return values
}

// Answer is the envelope of an answer.
type Answer struct {
	Status    int
	Data      json.RawMessage
	ErrMsg    string
	ErrDetail string
}

// Post sends a body as JSON and reads the answer; its data goes into a value,
// unless that is nil.
func (s *Server) Post(u User, path string, body, into any) Answer {
	s.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(s.t, err)
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL+path, strings.NewReader(string(text)))
	require.NoError(s.t, err)
	r.Header.Set("X-API-Key", u.Key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	a := Answer{Status: resp.StatusCode}
	require.NoError(s.t, json.Unmarshal(raw, &a), string(raw))
	if into != nil && a.Status == http.StatusOK {
		require.NoError(s.t, json.Unmarshal(a.Data, into), string(raw))
	}
	return a
}

// Package agenttest runs agents of a whole server in tests: with a model that
// follows a script, the real sandbox, and the bundled upstream.
package agenttest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
	toolsetfile "github.com/portico-run/portico/modules/toolset/file"
)

// Server is a running server with one user.
type Server struct {
	*app.App

	// Model answers the agents of the server.
	Model *scripted.Server
	// User is the first user.
	User actor.Actor

	t        *testing.T
	url, key string
}

// Serve starts a server whose model follows the turns of a script. It stops with
// the test. More are settings, as the environment has them.
func Serve(t *testing.T, turns string, more ...string) *Server {
	t.Helper()
	script, err := scripted.Parse([]byte("name: test\nturns:\n" + turns))
	require.NoError(t, err)
	model := scripted.New(script)
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	env := append([]string{
		"DATABASE_URL=" + databasetest.URL(t, database.SQLite), "OBJECT_STORAGE_FOLDER=" + t.TempDir(), "TOOLSETS_DIR=" + filepath.Join(root(t), "configs", "toolsets"),
		"PORTICO_LISTEN=127.0.0.1:0", "DEMO_LISTEN=" + testenv.FreeAddress(t), "PTC_MODE=on", "SANDBOX_POOL=1", "SANDBOX_PRELOAD=json",
		"ENCRYPTION_KEY=" + strings.Repeat("0a", 32), "JWT_SECRET=" + strings.Repeat("s", 32),
		"HOME=" + os.Getenv("HOME"), "XDG_DATA_HOME=" + os.Getenv("XDG_DATA_HOME"),
		"MODEL_NAME=scripted", "MODEL_BASE_URL=" + web.URL, "MODEL_API_KEY=none",
	}, more...)
	testenv.Sandbox(t, sandboxtest.Root())
	c, err := configs.Load(configs.Options{Environ: env})
	require.NoError(t, err)
	variables := map[string]string{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		variables[name] = value
	}
	a, err := app.Open(t.Context(), app.Options{Config: c, Environ: variables, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	key, err := a.Prepare(t.Context())
	require.NoError(t, err)
	s, err := a.Start(t.Context(), configs.Options{Environ: env})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		require.NoError(t, s.Stop(ctx))
		require.NoError(t, a.Close())
	})
	users, err := a.Accounts.Service.Users(t.Context())
	require.NoError(t, err)
	return &Server{App: a, Model: model, User: actor.Actor{UID: users[0].UID, Scope: actor.Full}, t: t, url: "http://" + s.Addr().String(), key: key.Reveal()}
}

// Window is the setting of the model with other limits, such as "context: 6000" in
// tokens.
func Window(t *testing.T, limits string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "models.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`models: [{name: scripted, baseUrl: "${MODEL_BASE_URL}", `+limits+`}]`), 0o600))
	return "MODEL_FILE=" + file
}

// Reach is where the server is, and the key of its user.
func (s *Server) Reach() (url, key string) { return s.url, s.key }

// root is the folder of the repository.
func root(t *testing.T) string {
	t.Helper()
	folder, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		require.NotEqual(t, filepath.Dir(folder), folder, "there is no go.mod above the test")
		folder = filepath.Dir(folder)
	}
}

// Send makes a request of the user's with a JSON body.
func (s *Server) Send(method, path string, body any) (status int, answer string) {
	s.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(s.t, err)
	return s.send(method, path, "application/json", bytes.NewReader(text))
}

func (s *Server) send(method, path, kind string, body io.Reader) (status int, answer string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, body)
	require.NoError(s.t, err)
	r.Header.Set("X-API-Key", s.key)
	r.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response.StatusCode, string(raw)
}

// Event is one event of a stream.
type Event struct {
	Event, ResultID, Content, OriginError string
	Log                                   struct{ Level, Content string }
	ToolCallMeta                          struct{ ToolName, Status string }
}

// Ask has an agent work and returns the run when it has ended, with what its
// stream showed.
func (s *Server) Ask(body map[string]any) (run.Run, []Event) {
	s.t.Helper()
	status, stream := s.Send(http.MethodPost, "/v1/skill/streamInvoke", body)
	require.Equal(s.t, http.StatusOK, status, stream)
	var list []Event
	lines := bufio.NewScanner(strings.NewReader(stream))
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e Event
			require.NoError(s.t, json.Unmarshal([]byte(data), &e))
			list = append(list, e)
		}
	}
	require.NoError(s.t, lines.Err())
	require.NotEmpty(s.t, list)
	return s.Run(list[0].ResultID), list
}

// Run is the newest version of a run.
func (s *Server) Run(resultID string) run.Run {
	s.t.Helper()
	r, err := s.Runs.Service.Get(s.t.Context(), s.User, resultID, nil)
	require.NoError(s.t, err)
	return r
}

// Canvas makes a canvas and uploads files to it, by their names.
func (s *Server) Canvas(files map[string]string) string {
	s.t.Helper()
	status, answer := s.Send(http.MethodPost, "/v1/canvas/create", map[string]any{"title": "Test"})
	require.Equal(s.t, http.StatusOK, status, answer)
	var made struct{ Data struct{ CanvasID string } }
	require.NoError(s.t, json.Unmarshal([]byte(answer), &made))
	for name, content := range files {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		file, err := form.CreateFormFile("file", name)
		require.NoError(s.t, err)
		_, err = io.WriteString(file, content)
		require.NoError(s.t, err)
		require.NoError(s.t, form.WriteField("canvasId", made.Data.CanvasID))
		require.NoError(s.t, form.Close())
		status, answer := s.send(http.MethodPost, "/v1/drive/file/upload", form.FormDataContentType(), &body)
		require.Equal(s.t, http.StatusOK, status, answer)
	}
	return made.Data.CanvasID
}

// Apply loads toolset files, by their names.
func (s *Server) Apply(files map[string]string) {
	s.t.Helper()
	var list []toolsetfile.File
	for name, text := range files {
		list = append(list, toolsetfile.File{Name: name, Content: []byte(text)})
	}
	_, err := s.ToolsetFiles.Apply(s.t.Context(), list)
	require.NoError(s.t, err)
}

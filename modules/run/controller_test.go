package run_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/run"
)

// users takes the uid as the key.
type users struct{}

func (users) Authenticate(_ context.Context, c httpapi.Credentials) (actor.Actor, error) {
	return actor.Actor{UID: c.APIKey}, nil
}

func call(t *testing.T, api http.Handler, uid, method, path, body string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("X-Api-Key", uid)
	r.Header.Set("X-Request-Id", "trace")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	var answer map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), w.Body.String())
	return w.Code, answer
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	s := newService(t, databasetest.Open(t, database.SQLite, nil))
	api := httpapi.New(httpapi.Deps{Auth: users{}, Logger: slog.New(slog.DiscardHandler), BodyLimit: 1 << 20})
	(&run.Module{Service: s}).Register(api)

	status, answer := call(t, api, anna.UID, "POST", "/v1/canvas/create", `{"title":"work"}`)
	require.Equal(t, 200, status, answer)
	canvasID := answer["data"].(map[string]any)["canvasId"].(string)
	r := create(t, s, anna, run.CreateParams{
		ResultID: "ar-1", Title: "first", CanvasID: canvasID, Input: json.RawMessage(`{"query":"hi"}`), Toolsets: []string{"weather"},
	})
	create(t, s, anna, run.CreateParams{ResultID: "ar-1"})

	status, answer = call(t, api, anna.UID, "GET", "/v1/action/list", "")
	require.Equal(t, 200, status, answer)
	runs := answer["data"].(map[string]any)["items"].([]any)
	require.Len(t, runs, 2)
	require.InDelta(t, 1, runs[0].(map[string]any)["version"], 0, "newest first")
	require.Empty(t, cmp.Diff(map[string]any{
		"resultId": r.ResultID, "version": 0.0, "type": "skill", "title": "first", "status": "running",
		"targetType": "canvas", "targetId": canvasID, "input": map[string]any{"query": "hi"}, "toolsets": []any{"weather"},
		"ptcEnabled": false, "lastEventId": 1.0, "totals": map[string]any{
			"calls": 0.0, "running": 0.0, "waiting": 0.0, "failed": 0.0, "credits": "0", "resultTokens": 0.0, "programTokens": 0.0, "keptOut": 0.0,
		},
		"createdAt": "2026-03-04T12:00:00.123456Z", "updatedAt": "2026-03-04T12:00:00.123456Z",
	}, runs[1]))

	for _, path := range []string{
		"/v1/action/list?cursor=!", "/v1/canvas/list?limit=0", "/v1/canvas/list?cursor=!",
	} {
		status, answer = call(t, api, anna.UID, "GET", path, "")
		require.Equal(t, 400, status, "%s %v", path, answer)
		require.Equal(t, "E0003", answer["errCode"], path)
	}
	status, answer = call(t, api, anna.UID, "POST", "/v1/canvas/create", `{"title":"`+strings.Repeat("a", 201)+`"}`)
	require.Equal(t, 400, status, answer)
}

func TestListsArePaged(t *testing.T) {
	t.Parallel()
	s := newService(t, databasetest.Open(t, database.SQLite, nil))
	api := httpapi.New(httpapi.Deps{Auth: users{}, Logger: slog.New(slog.DiscardHandler), BodyLimit: 1 << 20})
	(&run.Module{Service: s}).Register(api)
	for range 3 {
		create(t, s, anna, run.CreateParams{})
		_, err := s.CreateCanvas(t.Context(), anna, "")
		require.NoError(t, err)
	}
	for _, path := range []string{"/v1/action/list", "/v1/canvas/list"} {
		var sizes []int
		for cursor, more := "", true; more; {
			status, answer := call(t, api, anna.UID, "GET", path+"?limit=2&cursor="+cursor, "")
			require.Equal(t, 200, status, answer)
			data := answer["data"].(map[string]any)
			sizes = append(sizes, len(data["items"].([]any)))
			cursor, more = data["nextCursor"].(string)
		}
		require.Equal(t, []int{2, 1}, sizes, path)
		_, answer := call(t, api, ben.UID, "GET", path, "")
		require.Empty(t, answer["data"].(map[string]any)["items"], path)
	}
}

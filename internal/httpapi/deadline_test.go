package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
)

// The time for reading a body ends with the body: a request may be worked on for
// longer.
func TestWorkMayTakeLongerThanReadingTheBody(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	const reading = 20 * time.Millisecond
	api.SetBodyTime(reading)
	type body struct {
		Body struct {
			Text string `json:"text"`
		}
	}
	httpapi.Register(api, httpapi.Operation{ID: "work", Method: http.MethodPost, Path: "/work", Access: httpapi.Public},
		func(ctx context.Context, _ actor.Actor, in *body) (string, error) {
			select {
			case <-ctx.Done():
				return "given up", nil
			case <-time.After(10 * reading):
				return in.Body.Text, nil
			}
		})
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/work", strings.NewReader(`{"text":"done"}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "done")
}

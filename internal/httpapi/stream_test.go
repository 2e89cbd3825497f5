package httpapi_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
)

// A stream that breaks off is not taken for the whole.
func TestBrokenStreamsEndTheConnection(t *testing.T) {
	t.Parallel()
	api := httpapi.New(httpapi.Deps{Auth: users{}, Logger: slog.New(slog.DiscardHandler), BodyLimit: bodyLimit, Version: "test"})
	httpapi.RegisterStream(api, httpapi.Operation{ID: "stream", Method: http.MethodGet, Path: "/v1/stream/{how}", Access: httpapi.Public, Tag: "t", Summary: "Stream"},
		func(_ context.Context, _ actor.Actor, in *struct {
			How string `path:"how"`
		},
		) ([]int, *httpapi.Stream, error) {
			if in.How == "none" {
				return []int{1}, nil, nil
			}
			return nil, &httpapi.Stream{Size: 5, WriteTo: func(w io.Writer) error {
				_, err := io.WriteString(w, "[1,2]"[:map[string]int{"whole": 5, "part": 4}[in.How]])
				if in.How == "part" {
					err = errors.New("the object ended early")
				}
				return err
			}}, nil
		})
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	get := func(how string) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/stream/"+how, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return strings.TrimSpace(string(text)), err
	}
	got, err := get("whole")
	require.NoError(t, err)
	require.JSONEq(t, `{"success":true,"data":[1,2]}`, got)
	got, err = get("none")
	require.NoError(t, err)
	require.JSONEq(t, `{"success":true,"data":[1]}`, got)
	got, err = get("part")
	require.Error(t, err, got)
}

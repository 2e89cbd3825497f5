package definition_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/sdkgen/definition"
)

func TestValidKey(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "fal_image", "apify-13f", "x.y", "Ünïcode", "with space", strings.Repeat("k", 128)} {
		require.NoError(t, definition.ValidKey(good), good)
	}
	for _, bad := range []string{
		"", ".", "..", ".hidden", "-flag", "a/b", `a\b`, "../x", "a\x00b", "a\nb", "a:b", "\xff",
		"bidi\u202eevil", strings.Repeat("k", 129),
	} {
		require.Error(t, definition.ValidKey(bad), "%q", bad)
	}
}

func TestValidateListsEveryProblem(t *testing.T) {
	t.Parallel()
	err := definition.Toolset{Key: "a/b", Tools: []definition.Tool{{Name: "x"}, {Name: ""}, {Name: "x"}}}.Validate()
	require.ErrorContains(t, err, `"a/b"`)
	require.ErrorContains(t, err, "tool 2 has no name")
	require.ErrorContains(t, err, `tool "x" is listed twice`)
}

func TestFolderRoundTrip(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	want := []definition.Toolset{
		{Key: "a", Name: "A <b> & c", Tools: []definition.Tool{
			{Name: "t", Description: "é", InputSchema: json.RawMessage(`{"type":"object","properties":{"z":{},"a":{}}}`)},
		}},
		{Key: "b"},
	}
	for _, ts := range []definition.Toolset{want[1], want[0]} {
		_, err := definition.Write(out, ts)
		require.NoError(t, err)
	}
	got, err := definition.ReadAll(out)
	require.NoError(t, err)
	var compact []byte
	compact, err = json.Marshal(got[0].Tools[0].InputSchema)
	require.NoError(t, err)
	require.Equal(t, string(want[0].Tools[0].InputSchema), string(compact), "the order of properties is kept")
	got[0].Tools[0].InputSchema = want[0].Tools[0].InputSchema
	require.Empty(t, cmp.Diff(want[0], got[0]))
	require.Equal(t, "b", got[1].Key)

	raw, err := os.ReadFile(filepath.Join(out, "tool-definition", "a.json"))
	require.NoError(t, err)
	require.Contains(t, string(raw), "A <b> & c")
	left, err := filepath.Glob(filepath.Join(out, "tool-definition", ".definition-*"))
	require.NoError(t, err)
	require.Empty(t, left, "temporary files are gone")
}

func TestReadFailures(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	_, err := definition.ReadAll(out)
	require.ErrorIs(t, err, definition.ErrMissing)
	_, err = definition.Read(out, "nope")
	require.ErrorIs(t, err, definition.ErrMissing)
	_, err = definition.Read(out, "../nope")
	require.Error(t, err)

	require.NoError(t, os.MkdirAll(definition.Folder(out), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(definition.Folder(out), "bad.json"), []byte("{"), 0o600))
	_, err = definition.Read(out, "bad")
	require.ErrorContains(t, err, "bad.json is not a tool definition")
	require.NoError(t, os.WriteFile(filepath.Join(definition.Folder(out), "bad.json"), []byte(`{"key":"other"}`), 0o600))
	_, err = definition.ReadAll(out)
	require.ErrorContains(t, err, `definition of "other", not of "bad"`)
}

func serve(t *testing.T, status int, body string, seen func(*http.Request)) definition.Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen != nil {
			seen(r)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	return definition.Client{API: srv.URL + "/", Key: "rf_secret", HTTP: srv.Client()}
}

func TestFetch(t *testing.T) {
	t.Parallel()
	var path, query, auth string
	c := serve(t, 200, `{"success":true,"data":[{"key":"a","name":"A","tools":[{"name":"x","inputSchema":{"type":"object"}}]}]}`,
		func(r *http.Request) {
			path, query, auth = r.URL.Path, r.URL.Query().Get("toolsetKeys"), r.Header.Get("Authorization")
		})
	got, err := c.Fetch(context.Background(), []string{"a", "b c"})
	require.NoError(t, err)
	require.Equal(t, "a", got[0].Key)
	require.Equal(t, `{"type":"object"}`, string(got[0].Tools[0].InputSchema))
	require.Equal(t, []string{"/v1/tool/toolset/exportDefinitions", "a,b c", "Bearer rf_secret"}, []string{path, query, auth})
}

func TestFetchFailures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		want   string
		api    bool
	}{
		"envelope": {
			404, `{"success":false,"errCode":"E1020","errMsg":"Toolset not found: x","errDetail":"see the list","traceId":"t1"}`,
			"the API answered 404: E1020: Toolset not found: x: see the list (trace t1)", true,
		},
		"failure with status 200": {200, `{"success":false,"errCode":"E0003","errMsg":"no"}`, "the API answered 200: E0003: no", true},
		"framework body":          {401, `{"message":"Unauthorized","statusCode":401}`, "401: Unauthorized: pass a valid API key", true},
		"not JSON":                {502, `<html>bad gateway`, "the API answered 502", true},
		"not an export":           {200, `{"hello":1}`, "has no success field", false},
		"HTML":                    {200, `<html>`, "is not a list of definitions", false},
		"bad key":                 {200, `{"success":true,"data":[{"key":"../x"}]}`, "unusable", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := serve(t, tc.status, tc.body, nil).Fetch(context.Background(), nil)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "rf_secret")
			var refusal *definition.APIError
			require.Equal(t, tc.api, errors.As(err, &refusal))
		})
	}
}

func TestFetchBadAddress(t *testing.T) {
	t.Parallel()
	for _, api := range []string{"", "localhost:5800", "ftp://x", "http://", "http://127.0.0.1:1"} {
		_, err := definition.Client{API: api, Key: "rf_secret"}.Fetch(context.Background(), nil)
		require.Error(t, err, api)
		require.NotContains(t, err.Error(), "rf_secret")
	}
}

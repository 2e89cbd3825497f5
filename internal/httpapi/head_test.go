package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What answers GET answers HEAD, with the same status, for those whom it
// answers, and nothing else does.
func TestHEADIsAnsweredWhereGETIs(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	for _, c := range []struct {
		path, cookie string
		status       int
	}{
		{"/v1/raw/x", "_rf_access=" + goodToken, 200},
		{"/v1/raw/missing", "_rf_access=" + goodToken, 404},
		{"/v1/raw/x", "", 401},
		{"/v1/tools", "_rf_access=" + goodToken, 200},
		{"/openapi.json", "", 200},
		{"/openapi-3.0.yaml", "", 200},
		{"/v1/echo/x", "_rf_access=" + goodToken, 405},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodHead, c.path, nil)
		r.Header.Set("Cookie", c.cookie)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if diff := cmp.Diff(c.status, w.Code); diff != "" {
			t.Errorf("%s: %s", c.path, diff)
		}
	}
}

func TestAllowListsTheMethodsOfThePath(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	for path, want := range map[string]string{"/v1/raw/x": "GET, HEAD", "/v1/echo/x": "POST"} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodOptions, path, nil))
		if diff := cmp.Diff([]any{405, want}, []any{w.Code, w.Header().Get("Allow")}); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

package httpapi_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"testing"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
)

// A browser sends its cookie with what pages of others ask for: it counts where
// they change nothing, and for pages of the server's own and of allowed origins.
func TestACookieChangesThingsForOwnPagesOnly(t *testing.T) {
	t.Parallel()
	api := httpapi.New(httpapi.Deps{Auth: users{}, Logger: slog.New(slog.DiscardHandler), BodyLimit: bodyLimit, Version: "test", Origins: []string{"https://app.example"}})
	for _, op := range []httpapi.Operation{
		{ID: "read", Method: http.MethodGet, Path: "/thing", Tag: "t", Summary: "Read"},
		{ID: "send", Method: http.MethodPost, Path: "/thing", Tag: "t", Summary: "Send"},
		{ID: "remove", Method: http.MethodDelete, Path: "/thing", Tag: "t", Summary: "Remove"},
		{ID: "enter", Method: http.MethodPost, Path: "/enter", Tag: "t", Summary: "Enter", Access: httpapi.Public, SignsIn: true},
	} {
		api.Raw(op, func(w http.ResponseWriter, _ *http.Request, _ actor.Actor) error { return httpapi.Write(w, "done") })
	}
	const cookie, form = "_rf_access=" + goodToken, "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		method, path string
		headers      map[string]string
		want         int
	}{
		"a form of another site":              {"POST", "/thing", map[string]string{"Content-Type": form, "Sec-Fetch-Site": "cross-site"}, 403},
		"a form of the same site":             {"POST", "/thing", map[string]string{"Content-Type": form, "Sec-Fetch-Site": "same-site"}, 403},
		"a form of its own":                   {"POST", "/thing", map[string]string{"Content-Type": form, "Sec-Fetch-Site": "same-origin"}, 200},
		"a form of an old browser":            {"POST", "/thing", map[string]string{"Content-Type": form}, 401},
		"a form of another, by Origin":        {"POST", "/thing", map[string]string{"Content-Type": form, "Origin": "http://evil.example"}, 403},
		"a form of its own, by Origin":        {"POST", "/thing", map[string]string{"Content-Type": form, "Origin": "http://example.com"}, 200},
		"a form of nobody, by Origin":         {"POST", "/thing", map[string]string{"Content-Type": form, "Origin": "null"}, 403},
		"JSON of another":                     {"POST", "/thing", map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, 403},
		"JSON of an allowed origin":           {"POST", "/thing", map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site", "Origin": "https://app.example"}, 200},
		"JSON of a program":                   {"POST", "/thing", map[string]string{"Content-Type": "application/json"}, 200},
		"a picture":                           {"GET", "/thing", map[string]string{"Sec-Fetch-Site": "cross-site"}, 200},
		"a deletion by a program":             {"DELETE", "/thing", nil, 200},
		"a deletion by another":               {"DELETE", "/thing", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"a deletion by another, by Origin":    {"DELETE", "/thing", map[string]string{"Origin": "http://evil.example"}, 403},
		"a key in a header":                   {"DELETE", "/thing", map[string]string{"Sec-Fetch-Site": "cross-site", "X-API-Key": goodKey}, 200},
		"another signs the browser in":        {"POST", "/enter", map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, 403},
		"another signs it in, by Origin":      {"POST", "/enter", map[string]string{"Content-Type": "application/json", "Origin": "http://evil.example"}, 403},
		"a page of its own signs it in":       {"POST", "/enter", map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}, 200},
		"an allowed origin signs it in, also": {"POST", "/enter", map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site", "Origin": "https://app.example"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			headers := map[string]string{"Cookie": cookie}
			maps.Copy(headers, c.headers)
			if got := send(t, api, c.method, c.path, "", headers); got.status != c.want {
				t.Errorf("status %d, want %d: %s", got.status, c.want, got.body)
			}
		})
	}
}

// An answer that lasts ends when the credential is found not to count any more, or
// when that cannot be found out.
func TestALastingAnswerEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	looked := make(chan struct{}, 100)
	still := make(chan error, 100)
	api := httpapi.New(httpapi.Deps{
		Auth: users{}, Logger: slog.New(slog.DiscardHandler), BodyLimit: bodyLimit, Version: "test",
		Still: func(_ context.Context, who actor.Actor) error {
			looked <- struct{}{}
			if who.UID != "u-1" {
				t.Errorf("%+v", who)
			}
			select {
			case err := <-still:
				return err
			default:
				return nil
			}
		},
	})
	api.SetLookTime(1)
	api.Raw(httpapi.Operation{ID: "last", Method: http.MethodGet, Path: "/last", Tag: "t", Summary: "Last", Lasts: true},
		func(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
			<-looked
			<-looked
			if err := r.Context().Err(); err != nil {
				t.Errorf("ended too early: %v", err)
			}
			still <- context.DeadlineExceeded
			<-r.Context().Done()
			return httpapi.Write(w, "ended")
		})
	if got := send(t, api, "GET", "/last", "", map[string]string{"X-API-Key": goodKey}); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

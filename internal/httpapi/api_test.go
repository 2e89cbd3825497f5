package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

const (
	goodKey    = "rf_good"
	sandboxKey = "rf_sandbox"
	adminKey   = "rf_admin"
	goodToken  = "header.payload.signature"
	bodyLimit  = 1 << 10
)

type users struct{}

func (users) Authenticate(_ context.Context, c httpapi.Credentials) (actor.Actor, error) {
	switch {
	case c.APIKey == goodKey, c.Token == goodToken:
		return actor.Actor{UID: "u-1"}, nil
	case c.APIKey == adminKey:
		return actor.Actor{UID: "u-0", Admin: true}, nil
	case c.APIKey == sandboxKey:
		return actor.Actor{UID: "u-1", Scope: actor.ToolExecute}, nil
	}
	return actor.Actor{}, errs.New(errs.Unauthorized, "Invalid API key")
}

type echoInput struct {
	ID   string `path:"id"`
	Body struct {
		Name  string `json:"name" minLength:"1"`
		Count int    `json:"count,omitempty"`
		Items []struct {
			Amount *int32 `json:"amount,omitempty"`
		} `json:"items,omitempty"`
		Free json.RawMessage `json:"free,omitempty"`
	}
}

type echo struct {
	ID   string `json:"id"`
	UID  string `json:"uid"`
	Name string `json:"name"`
}

func newAPI(t *testing.T) (*httpapi.API, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	api := httpapi.New(httpapi.Deps{
		Auth: users{}, Logger: slog.New(httpapi.Traced(slog.NewTextHandler(&log, nil))), BodyLimit: bodyLimit,
		Origins: []string{"https://app.example"}, Version: "test",
	})
	httpapi.Register(api, httpapi.Operation{ID: "echo", Method: http.MethodPost, Path: "/v1/echo/{id}", Tag: "t", Summary: "Echo"},
		func(_ context.Context, who actor.Actor, in *echoInput) (echo, error) {
			name := in.Body.Name
			for _, item := range in.Body.Items {
				name += fmt.Sprintf(" %d", *item.Amount)
			}
			if len(in.Body.Free) > 0 {
				name += fmt.Sprintf(" %d %s", in.Body.Count, in.Body.Free)
			}
			return echo{ID: in.ID, UID: who.UID, Name: name}, nil
		})
	httpapi.Register(api, httpapi.Operation{ID: "tools", Method: http.MethodGet, Path: "/v1/tools", Access: httpapi.Tools, Tag: "t", Summary: "Tools"},
		func(context.Context, actor.Actor, *struct{}) (httpapi.None, error) { return httpapi.None{}, nil })
	httpapi.Register(api, httpapi.Operation{ID: "fail", Method: http.MethodGet, Path: "/v1/fail/{how}", Access: httpapi.Public, Tag: "t", Summary: "Fail"},
		func(_ context.Context, _ actor.Actor, in *struct {
			How string `path:"how"`
		},
		) (httpapi.None, error) {
			switch in.How {
			case "panic":
				panic("secret in a panic")
			case "busy":
				return httpapi.None{}, errs.New(errs.RateLimited, "Busy.").Do("Wait.").After(1500 * time.Millisecond)
			case "ending":
				return httpapi.None{}, fmt.Errorf("begin: %w", errs.New(errs.Unavailable, "The server is stopping.").AsPlanned())
			case "broken":
				return httpapi.None{}, errs.New(errs.Unavailable, "The server is stopping.").With(errors.New("the database is gone"))
			}
			return httpapi.None{}, errors.New("secret in an error")
		})
	api.Raw(httpapi.Operation{ID: "raw", Method: http.MethodGet, Path: "/v1/raw/{name}", Tag: "t", Summary: "Raw"},
		func(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
			if r.PathValue("name") == "missing" {
				return errs.New(errs.NotFound, "No such name.")
			}
			if r.PathValue("name") == "ending" {
				return errs.New(errs.Unavailable, "The server is stopping.").AsPlanned()
			}
			_, err := io.WriteString(w, who.UID+" "+r.PathValue("name"))
			return err
		})
	return api, &log
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) envelope(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(r.body), &m); err != nil {
		t.Fatalf("%q is not the envelope: %v", r.body, err)
	}
	return m
}

func send(t *testing.T, api http.Handler, method, path, body string, headers map[string]string) reply {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range headers {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.String()}
}

func TestSuccessHasTheEnvelope(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	got := send(t, api, "POST", "/v1/echo/7", `{"name":"ü"}`, map[string]string{"X-API-Key": goodKey})
	want := map[string]any{"success": true, "data": map[string]any{"id": "7", "uid": "u-1", "name": "ü"}}
	if got.status != 200 {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	if diff := cmp.Diff(want, got.envelope(t)); diff != "" {
		t.Error(diff)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	cases := map[string]struct {
		headers map[string]string
		path    string
		want    int
	}{
		"none":                         {nil, "/v1/tools", 401},
		"api key header":               {map[string]string{"X-API-Key": goodKey}, "/v1/tools", 200},
		"bearer key":                   {map[string]string{"Authorization": "Bearer " + goodKey}, "/v1/tools", 200},
		"session token":                {map[string]string{"Authorization": "Bearer " + goodToken}, "/v1/tools", 200},
		"cookie":                       {map[string]string{"Cookie": "_rf_access=" + goodToken}, "/v1/tools", 200},
		"lower-case scheme":            {map[string]string{"Authorization": "bearer " + goodKey}, "/v1/tools", 401},
		"two spaces":                   {map[string]string{"Authorization": "Bearer  " + goodKey}, "/v1/tools", 401},
		"bad key never falls back":     {map[string]string{"X-API-Key": "rf_bad", "Authorization": "Bearer " + goodToken}, "/v1/tools", 401},
		"odd key never falls back":     {map[string]string{"X-API-Key": "odd", "Authorization": "Bearer " + goodToken}, "/v1/tools", 401},
		"bad bearer, good cookie":      {map[string]string{"Authorization": "Bearer rf_bad", "Cookie": "_rf_access=" + goodToken}, "/v1/tools", 401},
		"sandbox key on its route":     {map[string]string{"X-API-Key": sandboxKey}, "/v1/tools", 200},
		"sandbox key on another route": {map[string]string{"X-API-Key": sandboxKey}, "/v1/raw/x", 403},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := send(t, api, "GET", c.path, "", c.headers); got.status != c.want {
				t.Errorf("status %d, want %d: %s", got.status, c.want, got.body)
			}
		})
	}
	t.Run("cookie cannot change anything from a form", func(t *testing.T) {
		t.Parallel()
		got := send(t, api, "POST", "/v1/echo/7", "name=x", map[string]string{
			"Cookie": "_rf_access=" + goodToken, "Content-Type": "application/x-www-form-urlencoded",
		})
		if got.status != 401 {
			t.Errorf("status %d, want 401", got.status)
		}
	})
}

func TestBadInputHasAStatusAndTheEnvelope(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	const secret = "s3cr3t-value"
	cases := map[string]struct {
		body, contentType string
		want              int
		says              string
	}{
		"malformed":        {`{"name":`, "application/json", 400, ""},
		"wrong type":       {`{"name":{"x":"` + secret + `"}}`, "application/json", 400, "body.name"},
		"missing field":    {`{}`, "application/json", 400, "name"},
		"too short":        {`{"name":""}`, "application/json", 400, "body.name"},
		"misspelled key":   {`{"name":"x","cuont":"` + secret + `"}`, "application/json", 400, "body: cuont is not known; did you mean count?"},
		"misspelled deep":  {`{"name":"x","items":[{},{"amont":"` + secret + `"}]}`, "application/json", 400, "items[1].amont is not known; did you mean amount?"},
		"no whole number":  {`{"name":"x","count":1.5}`, "application/json", 400, "body.count: expected integer"},
		"a huge number":    {`{"name":"x","count":1e999999}`, "application/json", 400, "body"},
		"no body":          {``, "application/json", 400, ""},
		"invalid UTF-8":    {"{\"name\":\"\xff\"}", "application/json", 400, "UTF-8"},
		"too large":        {`{"name":"` + strings.Repeat("x", bodyLimit) + `"}`, "application/json", 413, "1024"},
		"deeply nested":    {`{"name":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`, "application/json", 400, ""},
		"another type":     {`name: x`, "application/yaml", 415, "application/json"},
		"a list":           {`[1]`, "application/json", 400, ""},
		"trailing garbage": {`{"name":"x"} x`, "application/json", 400, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := send(t, api, "POST", "/v1/echo/7", c.body, map[string]string{"X-API-Key": goodKey, "Content-Type": c.contentType})
			e := got.envelope(t)
			if got.status != c.want || e["success"] != false || e["errCode"] == "" || e["traceId"] == "" {
				t.Errorf("status %d, want %d: %s", got.status, c.want, got.body)
			}
			if !strings.Contains(got.body, c.says) {
				t.Errorf("%s does not say %q", got.body, c.says)
			}
			if strings.Contains(got.body, secret) {
				t.Errorf("%s repeats a value of the request", got.body)
			}
		})
	}
}

// Whole numbers may be written with a fraction or an exponent, what is not
// known is ignored, and what has no type of its own stays as it was sent.
func TestRequestsThatAreNearlyRight(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	for body, want := range map[string]string{
		`{"name":"x","more":1,"free":{"amuont":1.0}}`:                                     `x 0 {"amuont":1.0}`,
		`{"name":"x","count":67308032.0,"free":1}`:                                        `x 67308032 1`,
		`{"name":"x","count":-1.5e1,"free":1.0,"items":[{"amount":2e0},{"amount":3.00}]}`: `x 2 3 -15 1.0`,
		`{"NAME":"x"}`: `x`,
	} {
		got := send(t, api, "POST", "/v1/echo/7", body, map[string]string{"X-API-Key": goodKey})
		if got.status != 200 || got.envelope(t)["data"].(map[string]any)["name"] != want {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	if got := send(t, api, "GET", "/v1/nowhere", "", nil); got.status != 404 || got.envelope(t)["errCode"] != "E0021" {
		t.Errorf("unknown route: %d %s", got.status, got.body)
	}
	if got := send(t, api, "DELETE", "/v1/tools", "", nil); got.status != 405 || got.envelope(t)["errCode"] != "E0025" {
		t.Errorf("unknown method: %d %s", got.status, got.body)
	}
}

func TestFaultsTellTheLogAndNotTheClient(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"panic", "error"} {
		api, log := newAPI(t)
		got := send(t, api, "GET", "/v1/fail/"+how, "", map[string]string{httpapi.HeaderTrace: "trace-1"})
		if got.status != 500 || strings.Contains(got.body, "secret") {
			t.Errorf("%s: %d %s", how, got.status, got.body)
		}
		if got.envelope(t)["traceId"] != "trace-1" || got.header.Get(httpapi.HeaderTrace) != "trace-1" {
			t.Errorf("%s: the trace id is lost: %s", how, got.body)
		}
		if !strings.Contains(log.String(), "secret in") || !strings.Contains(log.String(), "trace-1") {
			t.Errorf("%s: the log does not know the cause: %s", how, log)
		}
	}
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	got := send(t, api, "GET", "/v1/fail/busy", "", nil)
	if got.status != 429 || got.header.Get("Retry-After") != "2" || got.envelope(t)["errDetail"] != "Wait." {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
}

func TestRawWritesItselfOrTheEnvelope(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	key := map[string]string{"X-API-Key": goodKey}
	if got := send(t, api, "GET", "/v1/raw/abc", "", key); got.status != 200 || got.body != "u-1 abc" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := send(t, api, "GET", "/v1/raw/missing", "", key); got.status != 404 || got.envelope(t)["errCode"] != "E0021" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestOnlyConfiguredOriginsMayCallWithCredentials(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	preflight := func(origin string) reply {
		return send(t, api, "OPTIONS", "/v1/tools", "", map[string]string{"Origin": origin, "Access-Control-Request-Method": "GET"})
	}
	if got := preflight("https://app.example"); got.status != 204 || got.header.Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Errorf("own origin: %d %v", got.status, got.header)
	}
	if got := preflight("https://evil.example"); got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("foreign origin: %v", got.header)
	}
}

// A cache between must not give the answer for one origin to another.
func TestEveryAnswerVariesByOrigin(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	for _, method := range []string{"GET", "OPTIONS", "DELETE"} {
		for _, origin := range []string{"", "https://app.example", "https://evil.example"} {
			for _, path := range []string{"/v1/tools", "/v1/nothing"} {
				header := map[string]string{"X-API-Key": goodKey, "Access-Control-Request-Method": "GET"}
				if origin != "" {
					header["Origin"] = origin
				}
				if got := send(t, api, method, path, "", header); got.header.Get("Vary") != "Origin" {
					t.Errorf("%s %s of %q: %d, Vary is %q", method, path, origin, got.status, got.header.Values("Vary"))
				}
			}
		}
	}
}

// What a page may read of an answer besides its body.
func TestPagesMayReadTheHeadersTheyNeed(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	got := send(t, api, "GET", "/v1/tools", "", map[string]string{"Origin": "https://app.example", "X-API-Key": goodKey})
	exposed := strings.Split(got.header.Get("Access-Control-Expose-Headers"), ", ")
	for _, name := range []string{"Retry-After", "Content-Disposition", httpapi.HeaderTrace} {
		if !slices.Contains(exposed, name) {
			t.Errorf("%s is not exposed: %q", name, exposed)
		}
	}
}

func TestOpenAPIKnowsEveryOperation(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	doc, err := api.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/echo/{id}", "/v1/tools", "/v1/raw/{name}"} {
		if !bytes.Contains(doc, []byte(`"`+path+`"`)) {
			t.Errorf("%s is not in the document", path)
		}
	}
	if bytes.Contains(doc, []byte("$schema")) {
		t.Error("answers carry a $schema member")
	}
}

func TestCursors(t *testing.T) {
	t.Parallel()
	if pk, err := httpapi.DecodeCursor(httpapi.EncodeCursor(12345)); err != nil || pk != 12345 {
		t.Errorf("round trip: %d, %v", pk, err)
	}
	if pk, err := httpapi.DecodeCursor(""); err != nil || pk != 0 {
		t.Errorf("empty: %d, %v", pk, err)
	}
	for _, bad := range []string{"%%", "!", "MA", httpapi.EncodeCursor(-4)} {
		if _, err := httpapi.DecodeCursor(bad); errs.CodeOf(err) != errs.Invalid {
			t.Errorf("DecodeCursor(%q) = %v", bad, err)
		}
	}
}

func TestWindowOfAPage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		query httpapi.PageQuery
		want  database.Window
	}{
		{httpapi.PageQuery{}, database.Window{Limit: 50}},
		{httpapi.PageQuery{Cursor: httpapi.EncodeCursor(7), Limit: 3}, database.Window{After: 7, Limit: 3}},
		{httpapi.PageQuery{Page: 1}, database.Window{Limit: 10, Count: true}},
		{httpapi.PageQuery{PageSize: 20}, database.Window{Limit: 20, Count: true}},
		{httpapi.PageQuery{Page: 3, PageSize: 20}, database.Window{Offset: 40, Limit: 20, Count: true}},
		{httpapi.PageQuery{Page: 50, PageSize: 200}, database.Window{Offset: 9800, Limit: 200, Count: true}},
	} {
		if got, err := c.query.Window(); err != nil || got != c.want {
			t.Errorf("%+v: %+v, %v", c.query, got, err)
		}
	}
	for _, bad := range []httpapi.PageQuery{
		{Cursor: httpapi.EncodeCursor(7), Page: 1},
		{Limit: 1, Page: 1},
		{Limit: 1, PageSize: 1},
		{Cursor: "!"},
		{Page: 51, PageSize: 200},
		{Page: 1001},
		{Page: math.MaxInt, PageSize: 200},
	} {
		if _, err := bad.Window(); errs.CodeOf(err) != errs.Invalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestOnlyAdministratorsAreAdmitted(t *testing.T) {
	t.Parallel()
	api, _ := newAPI(t)
	httpapi.Register(api, httpapi.Operation{ID: "office", Method: http.MethodGet, Path: "/v1/admin/office", Tag: "t", Summary: "Office", Access: httpapi.Admin},
		func(context.Context, actor.Actor, *struct{}) (httpapi.None, error) { return httpapi.None{}, nil })
	for key, want := range map[string]int{adminKey: 200, goodKey: 403, sandboxKey: 403, "rf_none": 401} {
		r := httptest.NewRequest(http.MethodGet, "/v1/admin/office", http.NoBody)
		r.Header.Set("X-API-Key", key)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d %s, want %d", key, w.Code, w.Body, want)
		}
	}
}

// A process that ends as it should refuses, and nothing is wrong: that is told from a
// fault by the kind of the error, whatever its words.
func TestPlannedRefusalsAreNoErrors(t *testing.T) {
	t.Parallel()
	for path, level := range map[string]string{"/v1/fail/ending": "INFO", "/v1/raw/ending": "INFO", "/v1/fail/broken": "ERROR", "/v1/fail/other": "ERROR"} {
		api, log := newAPI(t)
		r := send(t, api, http.MethodGet, path, "", map[string]string{"Authorization": "Bearer " + goodKey})
		if r.status < 500 {
			t.Errorf("%s: status %d", path, r.status)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 2 || strings.Count(log.String(), "level="+level+" ") != 2 {
			t.Errorf("%s: not two lines of %s:\n%s", path, level, log)
		}
	}
}

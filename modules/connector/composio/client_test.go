package composio_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/composio"
	"github.com/portico-run/portico/modules/connector/composio/composiotest"
)

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

func client(t *testing.T, s *composiotest.Server, change ...func(d *composio.ClientDeps)) *composio.Client {
	t.Helper()
	e := egress.New(egress.Config{})
	t.Cleanup(e.Close)
	d := composio.ClientDeps{
		BaseURL: s.URL, Version: "v3", Key: composiotest.Key, Egress: loopback(), Timeout: 5 * time.Second, CacheLife: time.Minute,
		Upstream: upstream.New(upstream.Deps{Client: e, ResponseCap: 1 << 20, Wait: func(context.Context, time.Duration) error { return nil }}),
	}
	for _, f := range change {
		f(&d)
	}
	return composio.NewClient(d)
}

// The stand-in is what the vendor's own client takes for the service.
func TestTheStandInIsTakenForTheService(t *testing.T) {
	t.Parallel()
	tools := testenv.Need(t, "PORTICO_PYTOOLS", "tools/pytools.sh prints it")
	s := composiotest.Start(t)
	account := s.Agree("u-1", "gmail")
	cmd := exec.CommandContext(t.Context(), filepath.Join(tools, "bin", "python"), "testdata/vendor.py", s.URL, composiotest.Key, account)
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%s", failed.Stderr)
	}
	require.NoError(t, err)
	require.JSONEq(t, `{
		"tools": ["GMAIL_SEND_EMAIL", "GMAIL_FETCH_EMAILS", "GMAIL_GET_ATTACHMENT"], "last": null, "account": [true, "ACTIVE", "gmail"],
		"success": {"data": {"messages": [{"subject": "Hello"}], "asked": 3}, "error": null, "successful": true},
		"failure": {"data": {"status": 550}, "error": "Invalid To header", "successful": false},
		"foreign": "PermissionDeniedError", "link": [true, "ca_pending_1"], "upload": "00000000000000000000000000000000-a.txt", "revoked": true
	}`, string(out))
}

func TestToolsArePagedAndKept(t *testing.T) {
	t.Parallel()
	s := composiotest.Start(t)
	now := time.Now()
	c := client(t, s, func(d *composio.ClientDeps) { d.Now = func() time.Time { return now } })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			tools, err := c.Tools(t.Context(), "gmail")
			if err != nil || len(tools) != 3 || tools[2].Version != "20260901_00" {
				t.Errorf("%+v, %v", tools, err)
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, s.Requests("GET /api/v3/tools"), 4, "who asks at once asks once")
	before := s.Requests("GET /api/v3/tools")
	_, err := c.Tools(t.Context(), "gmail")
	require.NoError(t, err)
	require.Equal(t, before, s.Requests("GET /api/v3/tools"))
	now = now.Add(2 * time.Minute)
	_, err = c.Tools(t.Context(), "gmail")
	require.NoError(t, err)
	require.Equal(t, before+2, s.Requests("GET /api/v3/tools"))

	// A service that fails is not asked again at once; what was listed stays.
	s.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	now = now.Add(2 * time.Minute)
	for range 3 {
		tools, err := c.Tools(t.Context(), "gmail")
		require.NoError(t, err)
		require.Len(t, tools, 3)
		_, err = c.Tools(t.Context(), "googlesheets")
		require.Error(t, err)
	}
	require.Equal(t, before+4, s.Requests("GET /api/v3/tools"))
	s.Fail(nil)
	now = now.Add(15 * time.Second)
	_, err = c.Tools(t.Context(), "googlesheets")
	require.NoError(t, err)

	// The path of the version is a setting.
	_, err = client(t, s, func(d *composio.ClientDeps) { d.Version = "v3.1" }).Tools(t.Context(), "gmail")
	require.NoError(t, err)
	require.Equal(t, 2, s.Requests("GET /api/v3.1/tools"))
}

// A list is never taken for whole that was not read to its end.
func TestListsWithoutAnEndAreRefused(t *testing.T) {
	t.Parallel()
	list := func(pages int) ([]composio.Tool, error) {
		s := composiotest.Start(t)
		s.PageSize = 1
		for len(s.Tools) < pages {
			s.Tools = append(s.Tools, s.Tools[0])
		}
		return client(t, s).Tools(t.Context(), "")
	}
	tools, err := list(20)
	require.NoError(t, err)
	require.Len(t, tools, 20)
	tools, err = list(21)
	require.ErrorContains(t, err, "has more than 20 pages")
	require.Empty(t, tools)
}

func TestSchemasAndWhatIsExported(t *testing.T) {
	t.Parallel()
	c := client(t, composiotest.Start(t))
	tools, err := c.Tools(t.Context(), "gmail")
	require.NoError(t, err)
	schema, err := tools[0].Schema()
	require.NoError(t, err)
	var got struct {
		Properties struct {
			Attachment struct{ AnyOf []map[string]any } `json:"attachment"`
		} `json:"properties"`
	}
	require.NoError(t, json.Unmarshal(schema, &got))
	require.Equal(t, map[string]any{
		"type": "string", "title": "Attachment", "description": "A file to attach. A drive file (df-…) or a public URL.",
		"isResource": true, "format": "file", "file_uploadable": true,
	}, got.Properties.Attachment.AnyOf[0])
	require.NotContains(t, string(schema), "s3key")

	tools, err = c.Tools(t.Context(), "alpha_vantage")
	require.NoError(t, err)
	var exported []string
	for _, tool := range tools {
		if tool.Exported() {
			exported = append(exported, tool.Slug)
		}
	}
	require.Equal(t, []string{"ALPHA_VANTAGE_SYMBOL_SEARCH"}, exported)
	for key, want := range map[string]string{"google_sheets": "googlesheets", "google_calendar": "googlecalendar", "google_maps": "google_maps", "gmail": "gmail"} {
		require.Equal(t, want, composio.Toolkit(key))
	}
}

func TestExecute(t *testing.T) {
	t.Parallel()
	s := composiotest.Start(t)
	c := client(t, s)
	account := s.Agree("u-1", "gmail")
	call := func(user, to string) (composio.Result, error) {
		return c.Execute(t.Context(), composio.Execution{Slug: "GMAIL_SEND_EMAIL", AccountID: account, UserID: user, Arguments: map[string]any{"to": to, "body": "b"}})
	}
	got, err := call("u-1", "a@b.c")
	require.NoError(t, err)
	require.True(t, got.Successful)
	require.JSONEq(t, `{"sent":true,"to":"a@b.c"}`, string(got.Data))
	got, err = call("u-1", "nobody")
	require.NoError(t, err)
	require.False(t, got.Successful)
	require.Equal(t, "Invalid To header", got.Error)

	_, err = call("u-2", "a@b.c")
	require.True(t, composio.AccountLost(err))
	var refusal *composio.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, "The account belongs to another user (code 1812, request req_test_1). Send the user of the account.", refusal.Message)
	require.Equal(t, "FORBIDDEN", refusal.Code)
	require.Contains(t, string(refusal.Data), `"suggested_fix"`)
}

// hang answers when nobody waits any more. The body is read first: only then
// does the server notice.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// What a call that has an effect comes to when the service fails; it is never
// made again.
func TestFaults(t *testing.T) {
	t.Parallel()
	s := composiotest.Start(t)
	account := s.Agree("u-1", "gmail")
	for name, f := range map[string]struct {
		fail func(w http.ResponseWriter, r *http.Request)
		code string
		says string
	}{
		"slow":         {hang, "TIMEOUT", "did not answer"},
		"429":          {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "7"); w.WriteHeader(429) }, "RATE_LIMIT_ERROR", "Try again after 7s"},
		"500":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "SERVER_ERROR", "500"},
		"503":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "SERVER_ERROR", "503"},
		"invalid JSON": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"data":`) }, "INVALID_RESPONSE", "not the JSON"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "999")
			io.WriteString(w, `{"da`)
		}, "CONNECTION_BROKEN", "broke"},
		"private": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusSeeOther)
		}, "EGRESS_REFUSED", "may reach"},
		"too much": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("x", 2<<20)) }, "RESPONSE_TOO_LARGE", "more than"},
		"the key back": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			io.WriteString(w, `{"error":{"message":"bad key `+r.Header.Get("X-Api-Key")+`"}}`)
		}, "BAD_REQUEST", "bad key [redacted]"},
	} {
		c := client(t, s, func(d *composio.ClientDeps) {
			if name == "slow" {
				d.Timeout = 100 * time.Millisecond
			}
		})
		before := s.Requests("POST")
		s.Fail(func(w http.ResponseWriter, r *http.Request) bool {
			f.fail(w, r)
			return true
		})
		_, err := c.Execute(t.Context(), composio.Execution{Slug: "GMAIL_FETCH_EMAILS", AccountID: account, UserID: "u-1"})
		var refusal *composio.Error
		require.ErrorAs(t, err, &refusal, name)
		require.Equal(t, f.code, refusal.Code, "%s: %s", name, refusal.Message)
		require.Contains(t, refusal.Message, f.says, name)
		require.NotContains(t, err.Error()+string(refusal.Data), composiotest.Key)
		require.Equal(t, before+1, s.Requests("POST"), "%s: the call was made again", name)
		require.False(t, composio.AccountLost(err))
	}
}

func TestReadingIsRepeated(t *testing.T) {
	t.Parallel()
	s := composiotest.Start(t)
	n := 0
	s.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
		n++
		if n < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return n < 3
	})
	tools, err := client(t, s).Tools(t.Context(), "googlesheets")
	require.NoError(t, err)
	require.Len(t, tools, 1)
}

func TestAccountsAndFiles(t *testing.T) {
	t.Parallel()
	s := composiotest.Start(t)
	c := client(t, s)
	none, err := c.ActiveAccount(t.Context(), "u-1", "gmail")
	require.NoError(t, err)
	require.Nil(t, none)
	link, err := c.Link(t.Context(), "u-1", "gmail", "https://portico.example.com/back")
	require.NoError(t, err)
	require.Contains(t, link.RedirectURL, "/link/lk_1")
	_, err = c.Link(t.Context(), "u-2", "gmail", "")
	require.NoError(t, err)
	require.Equal(t, 1, s.Requests("POST /api/v3/auth_configs"), "one way to authenticate for all")
	account := s.Agree("u-1", "gmail")
	found, err := c.ActiveAccount(t.Context(), "u-1", "GMAIL")
	require.NoError(t, err)
	require.Nil(t, found, "the service was asked for another toolkit")
	found, err = c.ActiveAccount(t.Context(), "u-1", "gmail")
	require.NoError(t, err)
	require.Equal(t, account, found.ID)
	require.NoError(t, c.Disconnect(t.Context(), account))
	found, err = c.ActiveAccount(t.Context(), "u-1", "gmail")
	require.NoError(t, err)
	require.Nil(t, found)
	require.Error(t, c.Disconnect(t.Context(), "ca_none"))

	for _, toolkit := range []string{"alpha_vantage", "exa"} {
		id, err := c.Connect(t.Context(), "refly_global", toolkit, "key-of-"+toolkit)
		require.NoError(t, err)
		require.Contains(t, id, "ca_"+toolkit)
	}
	upload := composio.Upload{
		Toolkit: "gmail", Tool: "GMAIL_SEND_EMAIL", File: composio.File{Name: "a.txt", Type: "text/plain"}, Content: []byte("hello"), Egress: loopback(),
	}
	f, err := c.Upload(t.Context(), upload)
	require.NoError(t, err)
	require.Equal(t, "hello", string(s.File(f.Key)))
	s.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	_, err = c.Upload(t.Context(), upload)
	require.EqualError(t, err, "CONNECTION_BROKEN: The connection to the storage of files broke. The tool was not called.")
	s.Fail(nil)
	upload.Egress = nil
	_, err = c.Upload(t.Context(), upload)
	require.Error(t, err, "the storage is not on the public internet here")
	require.False(t, client(t, s, func(d *composio.ClientDeps) { d.Key = "" }).Connected())
}

// The service wraps what a tool returns; callers get what is inside.
func TestSchemaOfResults(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		``:   ``,
		`{}`: ``,
		`{"type":"object","properties":{"id":{"type":"string"}}}`:                                                                                   ``,
		`{"properties":{"data":{},"successful":{"type":"boolean"}}}`:                                                                                ``,
		`{"properties":{"data":{"$ref":"#/$defs/D"},"successful":{"type":"boolean"}},"$defs":{"D":{"type":"array"}}}`:                               `{"$ref":"#/$defs/D","$defs":{"D":{"type":"array"}}}`,
		`{"properties":{"data":{"type":"object","properties":{"id":{"type":"string"}}},"error":{"type":"string"},"successful":{"type":"boolean"}}}`: `{"type":"object","properties":{"id":{"type":"string"}}}`,
	} {
		require.Equal(t, want, string(composio.Tool{Output: json.RawMessage(output)}.Result()), output)
	}
}

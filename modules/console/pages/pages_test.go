package pages_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

// hostile is text that a model or an upstream may have written.
const hostile = `</textarea></script><script>alert(1)</script><img src=x onerror=alert(1)>"'{{.}}` + "\u202e"

// fake answers as the API does: with what is there for a path, or with 404.
type fake struct {
	data  map[string]any // by path, and by method and path
	fails bool           // with 503, whatever is asked
	asked []string
	body  string // of the newest request that has one
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI())
	if b, _ := io.ReadAll(r.Body); len(b) > 0 {
		f.body = string(b)
	}
	refuse := func(status int, message string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"success": false, "errMsg": message + hostile, "errDetail": "Do this.", "traceId": "trace-7"})
	}
	data, ok := f.data[r.Method+" "+r.URL.Path]
	if !ok {
		data, ok = f.data[r.URL.Path]
	}
	switch status, refused := data.(int); {
	case f.fails:
		refuse(http.StatusServiceUnavailable, "Out of reach.")
	case !ok:
		refuse(http.StatusNotFound, "Nothing there.")
	case refused:
		refuse(status, "Refused.")
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "data": data})
	}
}

// object is a JSON object.
type object = map[string]any

func items(list ...any) object {
	return object{"items": append([]any{}, list...), "nextCursor": "next-7"}
}

// full is an API with one of everything, named badly.
func full() map[string]any {
	at, ms := "2026-11-20T08:00:00Z", 1_700_000_000_000
	canvas := object{"canvasId": "c-1", "title": hostile, "createdAt": at, "updatedAt": at, "files": 2, "bytes": 3 << 20}
	file := object{"fileId": "df-1", "canvasId": "c-1", "name": hostile, "type": "text/plain", "source": "manual", "size": 2048, "createdAt": at, "url": "/v1/drive/file/content/df-1"}
	call := object{
		"callId": "call-1", "resultId": "ar-1", "toolset": "demo", "tool": "get_weather", "line": 3, "arguments": object{"city": hostile, "days": json.Number("9007199254740993")},
		"host": "example.com", "price": "0.02", "reason": hostile, "state": "waiting", "createdAt": at, "expiresAt": at,
	}
	schema := object{"type": "object", "required": []string{"city"}, "properties": object{
		"city": object{"type": "string", "minLength": 2, "description": hostile}, "days": object{"type": "integer"}, "file_name_title": object{"type": "string"},
	}}
	return map[string]any{
		"/v1/auth/cli/api-key": []any{
			object{"keyId": "k-1", "name": hostile, "keyPrefix": "rf_abc", "createdAt": at, "lastUsedAt": at, "expiresAt": at, "scopes": []string{"read"}},
			object{"keyId": "k-2", "name": "plain", "keyPrefix": "rf_def", "createdAt": at},
		},
		"POST /v1/auth/cli/api-key": object{"apiKey": "rf_the_new_key", "name": "new"},
		"/v1/auth/me":               object{"uid": "u-1", "name": "anna", "role": "user", "credential": "session"},
		"/v1/auth/sessions": []any{
			object{"sessionId": "s-1", "current": true, "method": "key", "userAgent": hostile, "ip": "192.0.2.7", "createdAt": at, "lastSeenAt": at, "expiresAt": at},
		},
		"POST /v1/auth/password": object{},
		"/v1/auth/audit":         items(object{"action": "key.create", "subject": hostile, "keyId": "k-1", "detail": object{"name": hostile}, "createdAt": at}),
		"/v1/credit/balance":     object{"creditAmount": 100, "creditBalance": json.Number("12.34"), "debt": 0},
		"/v1/credit/recharge":    items(object{"rechargeId": "cr-1", "source": "gift", "amount": 100, "balance": 12, "createdAt": ms, "expiresAt": ms}),
		"/v1/credit/report": object{"total": 6, "charged": 6, "lines": []any{object{
			"usageType": "tool_call", "toolsetKey": "demo", "toolName": hostile, "calls": 3, "total": 6, "charged": 6, "day": "2026-11-20",
		}}},
		"/v1/credit/usage": object{"items": []any{object{
			"usageId": "u", "usageType": "tool_call", "amount": json.Number("0.10"), "dueAmount": 2, "actionResultId": "ar-1", "version": 1, "toolCallId": "call-1", "createdAt": ms,
			"toolCallMeta": object{"toolsetKey": "=demo", "toolName": "get_weather"},
		}}},
		"/v1/limits":      object{"plan": "free", "credits": object{"dayLimit": 50, "spentToday": 6, "held": 0, "daySince": at}, "storage": object{"usedBytes": 1 << 20, "quotaBytes": 5 << 30}, "calls": object{"now": 1, "most": 8}},
		"/v1/canvas/list": items(canvas), "/v1/canvas/c-1": canvas, "POST /v1/canvas/create": canvas,
		"/v1/drive/file/list": object{"items": []any{file}}, "/v1/drive/file/preview/df-1": object{"kind": "text", "text": hostile, "file": file},
		"POST /v1/drive/file/presign": object{"url": "http://localhost/v1/drive/file/shared?token=t", "expiresAt": at},
		"POST /v1/drive/file/upload":  file, "POST /v1/drive/file/delete": object{},
		"/v1/tool/inventory/list": []any{
			object{"key": "demo", "type": "regular", "labelDict": object{"en": hostile}, "descriptionDict": object{"en": hostile}, "tools": []any{
				object{"name": "get_weather", "descriptionDict": object{"en": hostile}, "allowedCallers": []string{"code"}},
			}},
			object{
				"key": "jina", "type": "regular", "requiresAuth": true, "authPatterns": []any{object{"type": "credentials", "credentialItems": []any{object{"key": "apiKey", "inputMode": "text", "required": true}}}},
				"configItems": []any{object{"key": "region", "inputMode": "select", "options": []any{object{"value": "eu"}}}},
			},
			object{"key": "gmail", "type": "external_oauth", "requiresAuth": true, "authPatterns": []any{object{"type": "oauth", "provider": "google"}}},
		},
		"/v1/tool/user/list": []any{
			object{"key": "demo", "authorized": true, "toolset": object{"toolset": object{"isGlobal": true, "enabled": true}}},
			object{"key": "gmail", "authorized": false},
		},
		"/v1/tool/toolset/demo": object{
			"key": "demo", "name": hostile, "description": hostile, "type": "regular", "state": "ready", "toolset": object{"toolsetId": "t-0", "isGlobal": true, "enabled": true},
			"tools": []any{object{"name": "get_weather", "description": hostile, "inputSchema": schema, "line": "get_weather(city: str)", "function": hostile, "callers": []string{"code"}, "readOnly": true, "price": object{"credits": json.Number("0.02")}}},
		},
		"/v1/tool/toolset/jina": object{
			"key": "jina", "name": "Jina", "type": "regular", "state": "off", "problem": hostile, "toolset": object{"toolsetId": "t-1", "name": "Mine", "config": object{"region": "eu"}}, "tools": []any{},
			"authPatterns": []any{object{"type": "credentials", "credentialItems": []any{object{"key": "apiKey", "inputMode": "text", "required": true}}}},
			"configItems":  []any{object{"key": "region", "inputMode": "select", "options": []any{object{"value": "eu"}}}},
		},
		"/v1/tool/toolset/gmail":       object{"key": "gmail", "name": "Gmail", "type": "external_oauth", "state": "needs_account", "tools": []any{}, "authPatterns": []any{object{"type": "oauth", "provider": "google"}}},
		"/v1/tool/toolset/docs":        object{"key": "docs", "name": "docs", "type": "mcp", "state": "broken", "problem": hostile, "health": object{"connectUrl": "/v1/mcp/connect/docs"}, "tools": []any{}},
		"POST /v1/tool/execute":        object{"status": "success", "data": object{"text": hostile, "number": json.Number("9007199254740993")}},
		"POST /v1/tool/toolset/create": object{}, "POST /v1/tool/toolset/update": object{}, "POST /v1/tool/toolset/delete": object{},
		"POST /v1/tool/composio/gmail/authorize": object{"redirectUrl": "https://example.com/connect"},
		"/v1/admin/status":                       object{"version": "1", "process": "p-1", "checks": []any{object{"check": "database", "ok": false, "text": hostile}}, "stoppedUpstreams": []any{object{"origin": "https://example.com", "until": at}}, "mcpServers": object{"ready": 2}},
		"/v1/admin/sandbox":                      object{"driver": "forkserver", "idle": 1, "pool": 2, "running": object{"now": 1, "most": 4}, "layers": []any{object{"check": "network", "ok": true, "text": "none"}}},
		"/v1/admin/ptc/policy":                   object{"mode": "on", "users": []string{}, "toolsetAllowlist": []string{"demo"}, "rolloutPercent": 100},
		"/v1/admin/ptc/decision":                 object{"enabled": false, "steps": []any{object{"check": "mode", "result": "pass", "reason": hostile}, object{"check": "users", "result": "fail", "reason": hostile}}},
		"/v1/admin/toolsets":                     object{"toolsets": []any{object{"key": "demo", "name": hostile, "type": "regular", "tools": 6}}, "problems": []any{object{"file": "a.yaml", "line": 3, "problem": hostile}}},
		"/v1/admin/limits":                       items(object{"uid": "u-1", "run": 5, "updatedAt": at}), "/v1/admin/limits/usual": object{"day": 50}, "/v1/admin/plans": []any{object{"lookupKey": "plus", "planType": "plus", "monthly": 2000, "dailyGift": 100}},
		"PUT /v1/admin/limits/u-1": object{}, "/v1/admin/users": items(object{"uid": "u-1", "name": hostile, "role": "admin", "createdAt": at}),
		"/v1/admin/users/u-1":  object{"uid": "u-1", "name": hostile, "email": hostile, "role": "user", "createdAt": at, "creditBalance": json.Number("1.5"), "plan": "free", "keys": []any{object{"name": hostile, "keyPrefix": "rf_", "createdAt": at}}},
		"POST /v1/admin/users": object{"uid": "u-1"}, "PATCH /v1/admin/users/u-1": object{}, "POST /v1/admin/users/u-1/credits": object{},
		"/v1/admin/audit":    items(object{"uid": "u-1", "action": "key.create", "subject": hostile, "detail": object{"name": hostile}, "createdAt": at}),
		"/v1/mcp/servers":    []any{object{"name": "docs", "state": "degraded", "reason": hostile, "enabled": true}},
		"/v1/tool/approvals": items(call), "/v1/tool/approvals/call-1": call, "POST /v1/tool/call/decide": call,
	}
}

// everyPage are the pages that are only looked at.
func everyPage() []string {
	return []string{
		"/keys", "/credits", "/activity", "/files", "/files/c-1", "/files/c-1/df-1", "/toolsets", "/toolsets?q=weather", "/toolsets/demo", "/toolsets/demo?tool=get_weather",
		"/toolsets/jina", "/toolsets/gmail", "/toolsets/docs", "/approvals", "/approvals?state=all", "/approvals/call-1", "/account", "/admin", "/admin?probe=true", "/admin/ptc", "/admin/ptc?uid=u-1&toolsets=demo", "/admin/users", "/admin/users/u-1", "/admin/toolsets", "/admin/limits", "/admin/audit", "/help", "/help?q=credits", "/help/quickstart", "/help/wire/refly",
	}
}

func visit(t *testing.T, api http.Handler, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	serve(t, api).ServeHTTP(w, r.WithContext(t.Context()))
	return w
}

func get(t *testing.T, api http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	return visit(t, api, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console"+path, nil))
}

func post(t *testing.T, api http.Handler, path string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return visit(t, api, r)
}

// sound checks what holds for every page: one heading, names for all inputs, ids
// that are there once, and nobody's text as markup.
func sound(t *testing.T, text string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	require.NoError(t, err)
	ids, labels, headings := map[string]int{}, map[string]bool{}, 0
	var inputs []map[string]string
	var walk func(n *html.Node, labelled bool)
	walk = func(n *html.Node, labelled bool) {
		a := map[string]string{}
		for _, attr := range n.Attr {
			a[attr.Key] = attr.Val
			require.False(t, strings.HasPrefix(attr.Key, "on") || attr.Key == "style", "%s of %s", attr.Key, n.Data)
		}
		if id := a["id"]; id != "" {
			ids[id]++
			require.Equal(t, 1, ids[id], "the id %s is there twice", id)
		}
		name := n.Data
		if n.Type != html.ElementNode {
			name = ""
		}
		switch name {
		case "h1":
			headings++
		case "script":
			require.NotEmpty(t, a["src"], "a script in the page")
		case "label":
			labels[a["for"]], labelled = true, true
		case "input", "select", "textarea":
			if a["type"] != "hidden" && !labelled {
				inputs = append(inputs, a)
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, labelled)
		}
	}
	walk(root, false)
	require.Equal(t, 1, headings, "one h1")
	for _, a := range inputs {
		require.True(t, labels[a["id"]], "no label for %v", a)
	}
	require.NotContains(t, text, "<script>alert")
	require.NotContains(t, text, "<img src=x")
}

// Every page is whole with everything in it, with nothing in it, and where the API
// refuses or has nothing.
func TestEveryPageInEveryState(t *testing.T) {
	t.Parallel()
	empty := map[string]any{}
	for path, data := range full() {
		switch data := data.(type) {
		case []any:
			empty[path] = []any{}
		case object:
			if _, is := data["items"]; is {
				empty[path] = object{"items": []any{}}
			} else if path == "/v1/credit/report" {
				empty[path] = object{"total": 0, "charged": 0, "lines": []any{}}
			} else {
				empty[path] = data
			}
		}
	}
	for _, path := range everyPage() {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := get(t, &fake{data: full()}, path)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			sound(t, w.Body.String())
			require.NotContains(t, w.Header().Get("Content-Security-Policy"), "unsafe")

			w = get(t, &fake{data: empty}, path)
			sound(t, w.Body.String())

			w = get(t, &fake{data: full(), fails: true}, path)
			sound(t, w.Body.String())
			if !strings.HasPrefix(path, "/help") {
				require.Equal(t, http.StatusServiceUnavailable, w.Code)
				for _, says := range []string{"Out of reach.", "Do this.", "trace-7"} {
					require.Contains(t, w.Body.String(), says)
				}
			}
			sound(t, get(t, &fake{}, path).Body.String())
		})
	}
}

// A part of a page that cannot be read says so, and the others are there.
func TestAPartThatIsMissing(t *testing.T) {
	t.Parallel()
	api := &fake{data: full()}
	api.data["/v1/limits"], api.data["/v1/credit/recharge"] = http.StatusServiceUnavailable, http.StatusServiceUnavailable
	page := get(t, api, "/credits").Body.String()
	require.Equal(t, 2, strings.Count(page, "Refused."))
	require.Contains(t, page, "12.34")
}

// The new key is on the answer to the form alone.
func TestANewKeyIsShownOnce(t *testing.T) {
	t.Parallel()
	api := &fake{data: full()}
	w := post(t, api, "/keys", url.Values{"f/name": {"ci"}, "f/expiresInDays": {"30"}, "f/scopes": {`"read"`}})
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "rf_the_new_key")
	require.JSONEq(t, `{"name":"ci","expiresInDays":30,"scopes":["read"]}`, api.body)
	require.NotContains(t, get(t, api, "/keys").Body.String(), "rf_the_new_key")

	w = post(t, api, "/keys", url.Values{"f/name": {""}, "f/expiresInDays": {"soon"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), `value="soon"`, "what was typed stays")
	sound(t, w.Body.String())
}

// What the API refuses is said above the form, with what was typed.
func TestAFormThatTheAPIRefuses(t *testing.T) {
	t.Parallel()
	api := &fake{data: full()}
	api.data["POST /v1/auth/cli/api-key"] = http.StatusConflict
	w := post(t, api, "/keys", url.Values{"f/name": {"typed before"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "Refused.")
	require.Contains(t, w.Body.String(), "typed before")

	api.data["POST /v1/tool/toolset/update"] = http.StatusBadRequest
	w = post(t, api, "/toolsets/jina/install", url.Values{"authData:f/apiKey": {"sk-secret"}, "config:f/region": {`"eu"`}})
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.NotContains(t, w.Body.String(), "sk-secret")
	require.JSONEq(t, `{"key":"jina","name":"Mine","toolsetId":"t-1","authType":"credentials","authData":{"apiKey":"sk-secret"},"config":{"region":"eu"}}`, api.body)
}

// A credential that is left empty is not sent: it stays what it is.
func TestSettingsChangeWithoutTheCredential(t *testing.T) {
	t.Parallel()
	api := &fake{data: full()}
	w := post(t, api, "/toolsets/jina/install", url.Values{"authData:f/apiKey": {""}, "config:f/region": {`"eu"`}})
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	require.JSONEq(t, `{"key":"jina","name":"Mine","toolsetId":"t-1","config":{"region":"eu"}}`, api.body)
}

// A tool that is tried shows what came back, whole numbers whole.
func TestATriedTool(t *testing.T) {
	t.Parallel()
	api := &fake{data: full()}
	w := post(t, api, "/toolsets/demo/call", url.Values{"tool": {"get_weather"}, "nonce": {"n-1"}, "f/city": {"Rome"}, "f/days": {"9007199254740993"}})
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.JSONEq(t, `{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":"Rome","days":9007199254740993}}`, api.body)
	require.Contains(t, w.Body.String(), "9007199254740993")
	require.Contains(t, w.Body.String(), "success")
	sound(t, w.Body.String())

	api.asked = nil
	w = post(t, api, "/toolsets/demo/call", url.Values{"tool": {"get_weather"}, "f/city": {"R"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.NotContains(t, api.asked, "POST /v1/tool/execute", "what breaks the schema is not sent")
}

// A decision is sent as it was made; the arguments are changed in the form of the
// tool, and what is settled is shown with what was decided.
func TestDecisions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		posted url.Values
		sent   string
	}{
		{url.Values{"decision": {"allow"}}, `{"callId":"call-1","decision":"allow"}`},
		{url.Values{"decision": {"refuse"}, "reason": {"not today"}}, `{"callId":"call-1","decision":"refuse","reason":"not today"}`},
		{url.Values{"decision": {"change"}, "f/city": {"Oslo"}, "f/days": {"2"}}, `{"callId":"call-1","decision":"allow","arguments":{"city":"Oslo","days":2}}`},
	} {
		api := &fake{data: full()}
		w := post(t, api, "/approvals/call-1/decide", c.posted)
		require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
		require.JSONEq(t, c.sent, api.body)
	}
	api := &fake{data: full()}
	w := post(t, api, "/approvals/call-1/decide", url.Values{"decision": {"change"}, "f/city": {"O"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.NotContains(t, api.asked, "POST /v1/tool/call/decide")

	api.data["POST /v1/tool/call/decide"] = http.StatusConflict
	w = post(t, api, "/approvals/call-1/decide", url.Values{"decision": {"allow"}})
	require.Equal(t, http.StatusConflict, w.Code)
	require.Contains(t, w.Body.String(), "Refused.")
	require.Contains(t, w.Body.String(), "get_weather")
}

// The file of charges has every one, on as many pages of the API as there are, and
// no cell that a spreadsheet takes for a formula.
func TestChargesAsCSV(t *testing.T) {
	t.Parallel()
	w := get(t, &fake{data: full()}, "/credits.csv")
	require.Equal(t, "text/csv; charset=utf-8", w.Header().Get("Content-Type"))
	require.Regexp(t, regexp.MustCompile(`(?m)^2023-11-14T22:13:20Z,'=demo.get_weather,0.10,2,tool_call,ar-1,1,call-1$`), w.Body.String())
}

func TestAPeriodThatIsNone(t *testing.T) {
	t.Parallel()
	for _, q := range []string{"?from=soon", "?from=2026-02-01&until=2026-01-01", "?from=2001-01-01&until=2026-01-01"} {
		require.Equal(t, http.StatusBadRequest, get(t, &fake{data: full()}, "/credits"+q).Code, q)
	}
}

// Limits are set by the user that the form names; what is left empty is left out.
func TestLimitsOfAUser(t *testing.T) {
	t.Parallel()
	api := &fake{data: full()}
	w := post(t, api, "/admin/limits", url.Values{"f/uid": {"u-1"}, "f/day": {"2.50"}})
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	require.Equal(t, []string{"PUT /v1/admin/limits/u-1"}, api.asked)
	require.Equal(t, `{"day":2.50}`, api.body)
}

// Pages for administrators are not there for others, whatever the API says.
func TestPagesOfAdministratorsAreHidden(t *testing.T) {
	t.Parallel()
	nothing := get(t, &fake{}, "/help/no-such-page").Body.String()
	for _, path := range []string{"/admin", "/admin/ptc", "/admin/users", "/admin/users/u-1", "/admin/toolsets", "/admin/limits", "/admin/audit"} {
		api := &fake{data: full()}
		for at := range api.data {
			if strings.HasPrefix(at, "/v1/admin/") {
				api.data[at] = http.StatusForbidden
			}
		}
		w := get(t, api, path)
		require.Equal(t, http.StatusNotFound, w.Code, path)
		main := func(page string) string { return page[strings.Index(page, "<main"):] }
		require.Equal(t, main(nothing), main(w.Body.String()), path)
	}
}

// What an administrator does to a user is what the button says.
func TestChangesOfAUser(t *testing.T) {
	t.Parallel()
	for do, sent := range map[string]string{"disable": `{"disabled":true}`, "enable": `{"disabled":false}`, "admin": `{"role":"admin"}`, "user": `{"role":"user"}`, "plan": `{"plan":"plus"}`} {
		api := &fake{data: full()}
		w := post(t, api, "/admin/users/u-1", url.Values{"do": {do}, "plan": {"plus"}})
		require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
		require.Equal(t, sent, api.body)
	}
	api := &fake{data: full()}
	require.Equal(t, http.StatusBadRequest, post(t, api, "/admin/users/u-1", url.Values{"do": {"delete"}}).Code)
	require.Empty(t, api.asked)
	w := post(t, api, "/admin/users/u-1/credits", url.Values{"f/amount": {"2.50"}, "nonce": {"n-1"}})
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	require.Equal(t, `{"amount":2.50,"id":"n-1"}`, api.body)
}

// Limits that were not counted in all processes do not look as if they were.
func TestLimitsThatAreNotTheWhole(t *testing.T) {
	t.Parallel()
	api := &fake{data: full()}
	require.NotContains(t, get(t, api, "/credits").Body.String(), "Not the whole")
	api.data["/v1/limits"].(object)["processes"] = object{"counted": 2, "live": 3}
	require.Contains(t, get(t, api, "/credits").Body.String(), "2 of 3 server processes could be asked")
}

package vendors_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/connector/vendors"
	"github.com/portico-run/portico/modules/connector/vendors/vendorstest"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// bench is an executor with one vendor.
type bench struct {
	t        *testing.T
	executor *vendors.Connector
	set      toolset.Toolset
	methods  map[string]toolset.Method
	progress []string
}

func start(t *testing.T, key string, config map[string]string) *bench {
	t.Helper()
	e := egress.New(egress.Config{})
	t.Cleanup(e.Close)
	c, err := vendors.New(vendors.Deps{
		Upstream: upstream.New(upstream.Deps{Client: e, ResponseCap: 1 << 20, Wait: func(context.Context, time.Duration) error { return nil }}),
		Timeout:  2 * time.Second, Dollars: price.NewPricer(120 * money.Credit).Dollars, ContentTokens: 2000,
	})
	require.NoError(t, err)
	b := &bench{t: t, methods: map[string]toolset.Method{}, executor: c}
	b.set = toolset.Toolset{Key: key, Config: config, Egress: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	methods, err := c.List(t.Context(), toolset.Entry{Toolset: b.set})
	require.NoError(t, err)
	for _, m := range methods {
		b.methods[m.Name] = m
	}
	return b
}

// run makes a call as the gateway does: defaults filled in, checked.
func (b *bench) run(name, arguments string) tool.Outcome {
	b.t.Helper()
	return b.as(vendorstest.Token, name, arguments)
}

func (b *bench) as(token, name, arguments string) tool.Outcome {
	b.t.Helper()
	m, ok := b.methods[name]
	require.True(b.t, ok, name)
	var values map[string]any
	d := json.NewDecoder(strings.NewReader(arguments))
	d.UseNumber()
	require.NoError(b.t, d.Decode(&values))
	schema, err := jsonschema.Compile(m.Request)
	require.NoError(b.t, err)
	require.Empty(b.t, schema.Check(values), name)
	out, err := b.executor.Execute(b.t.Context(), tool.Invocation{
		Toolset: b.set, Method: m, Arguments: values, Credential: toolset.Credential{Type: toolset.Automatic, Value: toolset.Secret(token)},
		Progress: func(_ context.Context, text string) { b.progress = append(b.progress, text) },
	})
	require.NoError(b.t, err)
	return out
}

// ok is the data of a call that worked, and what it cost.
func (b *bench) ok(name, arguments string) (map[string]any, string) {
	b.t.Helper()
	out := b.run(name, arguments)
	require.Nil(b.t, out.Failure, "%s: %v", name, out.Failure)
	var data map[string]any
	require.NoError(b.t, json.Unmarshal(out.Data, &data), string(out.Data))
	return data, out.Cost.String()
}

func (b *bench) fails(name, arguments, code, says string) {
	b.t.Helper()
	out := b.run(name, arguments)
	require.NotNil(b.t, out.Failure, string(out.Data))
	require.Equal(b.t, code, out.Failure.Code, out.Failure.Message)
	require.Contains(b.t, out.Failure.Message, says)
	require.Nil(b.t, out.Cost)
}

func TestPerplexity(t *testing.T) {
	t.Parallel()
	vendor := vendorstest.Perplexity(t)
	b := start(t, "perplexity", map[string]string{"baseUrl": vendor.URL})
	data, cost := b.ok("chat_completions", `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"tea"}],"temperature":0.2}`)
	require.Equal(t, "2", cost, "0.0125 dollars are 1.5 credits, raised to whole ones")
	require.Equal(t, "About tea: it is so [1].", data["response"])
	require.Equal(t, "sonar", data["model"])
	for _, name := range []string{"fullResponse", "usage", "citations", "searchResults"} {
		require.NotEmpty(t, data[name], name)
	}
	for says, arguments := range map[string]string{
		"message 2 must be of assistant":       `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`,
		"message 1 must be of user":            `{"messages":[{"role":"assistant","content":"a"}]}`,
		"the last one must be of user":         `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`,
		"cannot be given together":             `{"messages":[{"role":"user","content":"a"}],"presence_penalty":1,"frequency_penalty":1}`,
		"the member json_schema must be there": `{"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema"}}`,
	} {
		b.fails("chat_completions", arguments, "INVALID_ARGUMENTS", says)
	}
	data, cost = b.ok("search", `{"query":["a","b","c","d","e","f"]}`)
	require.Equal(t, "2", cost, "two batches")
	require.InDelta(t, 6, data["totalQueries"], 0)
	require.Len(t, data["searchResults"], 6)
	require.Len(t, vendor.Requests("POST", "/search"), 2)

	out := b.as("wrong-token-9", "search", `{"query":["a"]}`)
	require.Equal(t, "UNAUTHORIZED", out.Failure.Code)
	require.Contains(t, out.Failure.Message, "Invalid API key provided")
	require.Equal(t, tool.CodeNotAuthorized, b.as("", "search", `{"query":["a"]}`).Failure.Code)
	vendor.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
		io.WriteString(w, `{"id":"x","results":[[{"title":"n1"},{"title":"n2"}],{"title":"n3"}]}`)
		return true
	})
	data, _ = b.ok("search", `{"query":["nested"]}`)
	require.Len(t, data["searchResults"], 3, "a list for each query is accepted")
}

func TestJina(t *testing.T) {
	t.Parallel()
	vendor := vendorstest.Jina(t)
	b := start(t, "jina", map[string]string{"readerUrl": vendor.URL + "/reader", "searchUrl": vendor.URL + "/search"})
	data, cost := b.ok("read", `{"url":"https://example.com/a?q=1#part"}`)
	require.Equal(t, "1", cost)
	require.Equal(t, "# Example\n\nText of https://example.com/a?q=1%23part", data["content"])
	require.Equal(t, "markdown", vendor.Requests("GET", "/reader")[0].Header.Get("X-Return-Format"))
	data, _ = b.ok("read", `{"url":"https://example.com/long"}`)
	content, _ := data["content"].(string)
	require.Contains(t, content, "...[truncated]")
	require.InDelta(t, 2000*len("word "), len(content), 100)
	data, _ = b.ok("read", `{"url":"https://example.com/a","returnFormat":"pageshot"}`)
	require.Equal(t, "https://storage.example.com/shot.png", data["pageshotUrl"])
	b.fails("read", `{"url":"https://example.com/poor"}`, "HTTP_ERROR", "InsufficientBalanceError: Account balance not enough to run this query")
	b.fails("read", `{"url":"file:///etc/passwd"}`, "INVALID_ARGUMENTS", "http or https")

	out := b.run("serp", `{"query":"tea","site":"example.com","offset":2}`)
	require.Nil(t, out.Failure)
	var results []map[string]any
	require.NoError(t, json.Unmarshal(out.Data, &results))
	require.Len(t, results, 3)
	require.Nil(t, results[0]["content"])
	asked := vendor.Requests("POST", "/search")[0].Header
	require.Equal(t, "no-content", asked.Get("X-Respond-With"))
	require.Equal(t, "example.com", asked.Get("X-Site"))
	out = b.run("serp", `{"query":"tea","readFullContent":true}`)
	require.NoError(t, json.Unmarshal(out.Data, &results))
	total := 0
	for _, r := range results {
		total += len(r["content"].(string))
	}
	require.Less(t, total, 3*2000*len("word "), "what there is is shared")
	require.Greater(t, len(results[2]["content"].(string)), len(results[0]["content"].(string)))
	require.Equal(t, "direct", vendor.Requests("POST", "/search")[1].Header.Get("X-Engine"))
}

func TestApify13F(t *testing.T) {
	t.Parallel()
	vendor := vendorstest.Apify(t)
	b := start(t, "apify-13f", map[string]string{"baseUrl": vendor.URL})
	data, cost := b.ok("run13FActor", `{"manager_name":"Berkshire","quarter_year":"Q2 2024","file_name":"holdings"}`)
	require.Equal(t, "4", cost, "0.03 dollars are 3.6 credits")
	require.Len(t, data["items"], 1500, "all pages")
	file, _ := data["file"].(map[string]any)
	require.Equal(t, "holdings.csv", file["name"])
	require.Equal(t, []string{"Apify: the run is READY", "Apify: the run is RUNNING"}, b.progress)
	data, cost = b.ok("run13FActor", `{"manager_name":"Cheap","quarter_year":"Q2 2024","file_name":"x.csv"}`)
	require.Equal(t, "0", cost, "no bill, and no price")
	require.Len(t, data["items"], 2)
	b.fails("run13FActor", `{"manager_name":"Nobody","quarter_year":"Q2 2024","file_name":"x"}`, "TASK_FAILED", "ended as FAILED. There is no such manager")
	require.Equal(t, "UNAUTHORIZED", b.as("wrong-token-9", "run13FActor", `{"manager_name":"A","quarter_year":"Q2 2024","file_name":"x"}`).Failure.Code)
}

// A run that nobody waits for any more is ended, since it costs.
func TestApifyRunsAreEndedWithTheirCall(t *testing.T) {
	t.Parallel()
	vendor := vendorstest.Apify(t)
	b := start(t, "apify-13f", map[string]string{"baseUrl": vendor.URL})
	ctx, cancel := context.WithCancel(t.Context())
	vendor.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			cancel()
			<-r.Context().Done()
			return true
		}
		return false
	})
	out, err := b.executor.Execute(ctx, tool.Invocation{
		Toolset: b.set, Method: b.methods["run13FActor"], Arguments: map[string]any{"manager_name": "A", "quarter_year": "Q2 2024", "file_name": "x"},
		Credential: toolset.Credential{Type: toolset.Automatic, Value: vendorstest.Token},
	})
	require.NoError(t, err)
	require.Equal(t, "CANCELLED", out.Failure.Code)
	require.Len(t, vendor.Requests("POST", "/v2/actor-runs/"), 1)
}

func TestApifyRunsThatCannotBeAskedAboutAreEnded(t *testing.T) {
	t.Parallel()
	vendor := vendorstest.Apify(t)
	b := start(t, "apify-13f", map[string]string{"baseUrl": vendor.URL})
	vendor.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		return false
	})
	b.fails("run13FActor", `{"manager_name":"A","quarter_year":"Q2 2024","file_name":"x"}`, "SERVER_ERROR", "500")
	require.Len(t, vendor.Requests("POST", "/v2/actor-runs/"), 1)
}

// All 25 tools of Notion.
func TestNotion(t *testing.T) {
	t.Parallel()
	vendor := vendorstest.Notion(t)
	b := start(t, "notion", map[string]string{"baseUrl": vendor.URL})
	id := func(data map[string]any, name string) string {
		t.Helper()
		text, _ := data[name].(string)
		require.NotEmpty(t, text, "%s: %v", name, data)
		return text
	}
	used := map[string]bool{}
	call := func(name, arguments string) map[string]any {
		t.Helper()
		used[name] = true
		arguments = strings.NewReplacer("PAGE", vendorstest.NotionPage, "DATABASE", vendorstest.NotionDatabase, "ROW", vendorstest.NotionRow, "USER", vendorstest.NotionUser).Replace(arguments)
		data, cost := b.ok(name, arguments)
		require.Equal(t, "0", cost)
		require.NotEmpty(t, data["message"])
		return data
	}
	long := strings.Repeat("x", 4500)
	page := id(call("create_page", `{"parentId":"PAGE","title":"Plan","content":"# One\n\n## Two\n- item\n`+long+`"}`), "pageId")
	blocks := vendor.Requests("PATCH", "/v1/blocks")
	require.Empty(t, blocks, "what fits is sent with the page")
	call("retrieve_page", `{"pageId":"`+page+`"}`)
	row := id(call("create_page", `{"parentId":"DATABASE","title":"Read","properties":{"Done":{"checkbox":true}}}`), "pageId")
	call("create_page_from_database", `{"parentDatabaseId":"DATABASE","title":"Sleep","icon":{"type":"emoji","emoji":"💤"},"content":"later"}`)
	updated := call("update_page", `{"pageId":"`+row+`","title":"Read more","archived":false}`)
	require.Contains(t, updated["page"].(map[string]any)["properties"], "Task", "the title of a row is a column")
	require.Len(t, call("search_pages", `{"filter":{"property":"object","value":"database"}}`)["results"], 1)
	require.NotEmpty(t, call("search_pages", `{"query":"x","sort":{"direction":"descending","timestamp":"last_edited_time"}}`)["results"])
	made := id(call("create_database", `{"parentId":"PAGE","title":"Books","properties":{"Name":{"title":{}}}}`), "databaseId")
	require.Contains(t, call("get_database_properties", `{"databaseId":"`+made+`"}`)["properties"], "Name")
	require.Len(t, call("query_database", `{"databaseId":"DATABASE","filter":{"property":"Done","checkbox":{"equals":true}},"sorts":[]}`)["results"], 3)
	require.Len(t, call("retrieve_database_content", `{"databaseId":"DATABASE","pageSize":5}`)["results"], 3)
	call("retrieve_database", `{"databaseId":"DATABASE"}`)
	call("update_database", `{"databaseId":"DATABASE","title":"Chores","description":"All","properties":{"Due":{"date":{}}}}`)
	require.Contains(t, call("get_database_properties", `{"databaseId":"DATABASE"}`)["properties"], "Due", "columns are the data source's")
	require.InDelta(t, 120, call("append_block", `{"parentId":"`+page+`","content":"`+strings.Repeat(`line\n`, 120)+`"}`)["blocks"], 0)
	require.Len(t, vendor.Requests("PATCH", "/v1/blocks/"+page), 2, "a hundred at once")
	copied := call("duplicate_page", `{"pageId":"`+page+`","parentId":"PAGE"}`)
	require.InDelta(t, 124, copied["blocks"], 0)
	require.Contains(t, marshal(t, copied["page"]), "Plan (copy)")
	block := "00000000-0000-4000-9000-000000000002"
	call("retrieve_block", `{"blockId":"`+block+`"}`)
	require.Contains(t, marshal(t, call("update_block", `{"blockId":"`+block+`","content":"new","type":"heading_1"}`)["block"]), `"new"`)
	call("delete_block", `{"blockId":"`+block+`"}`)
	require.Len(t, call("list_users", `{}`)["users"], 1)
	call("retrieve_user", `{"userId":"USER"}`)
	call("create_comment", `{"pageId":"PAGE","comment":"Nice"}`)
	call("create_comment", `{"discussionId":"d-1","comment":"Yes"}`)
	call("retrieve_page_property_item", `{"pageId":"ROW","propertyId":"title"}`)
	upload := id(call("create_file_upload", `{"filename":"a.txt"}`), "fileUploadId")
	sent := call("send_file_upload", `{"fileUploadId":"`+upload+`","fileData":"aGVsbG8=","filename":"a.txt"}`)
	require.Equal(t, "text/plain", sent["fileUpload"].(map[string]any)["content_type"])
	require.InDelta(t, 5, sent["fileUpload"].(map[string]any)["content_length"], 0)
	call("complete_file_upload", `{"fileUploadId":"`+upload+`"}`)
	call("retrieve_file_upload", `{"fileUploadId":"`+upload+`"}`)
	require.Len(t, call("list_file_uploads", `{"status":"uploaded","pageSize":3}`)["fileUploads"], 1)
	require.Len(t, used, 25)
	require.Len(t, b.methods, 25)

	for _, c := range []struct{ name, arguments, code, says string }{
		{"retrieve_page", `{"pageId":"../users"}`, "NOT_FOUND", "Could not find page with ID: ../users"},
		{"create_page", `{"parentId":"none","title":"x"}`, "NOT_FOUND", "Could not find page"},
		{"create_comment", `{"comment":"x"}`, "INVALID_ARGUMENTS", "pageId or discussionId"},
		{"create_comment", `{"comment":"x","pageId":"a","discussionId":"b"}`, "INVALID_ARGUMENTS", "not both"},
		{"update_page", `{"pageId":"x"}`, "INVALID_ARGUMENTS", "give a title"},
		{"update_database", `{"databaseId":"x"}`, "INVALID_ARGUMENTS", "give a title"},
		{"append_block", `{"parentId":"x","content":" \n "}`, "INVALID_ARGUMENTS", "empty"},
		{"send_file_upload", `{"fileUploadId":"x","fileData":"?","filename":"a"}`, "INVALID_ARGUMENTS", "base64"},
		{"create_file_upload", `{"mode":"external_url"}`, "INVALID_ARGUMENTS", "externalUrl"},
		{"create_file_upload", `{"mode":"multi_part"}`, "INVALID_ARGUMENTS", "numberOfParts"},
	} {
		b.fails(c.name, c.arguments, c.code, c.says)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// Reading is repeated as the vendor asks; writing never is.
func TestNotionRateLimits(t *testing.T) {
	t.Parallel()
	vendor := vendorstest.Notion(t)
	b := start(t, "notion", map[string]string{"baseUrl": vendor.URL})
	n := 0
	vendor.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
		n++
		if n%2 == 0 {
			return false
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"object":"error","status":429,"code":"rate_limited","message":"Slow down."}`)
		return true
	})
	b.ok("list_users", `{}`)
	b.ok("search_pages", `{}`)
	b.fails("create_comment", `{"pageId":"x","comment":"y"}`, "RATE_LIMIT_ERROR", "Slow down. Try again after 1s.")
	require.Len(t, vendor.Requests("POST", "/v1/comments"), 1)
}

// A page that was made is named, since another call makes another one.
func TestNotionSaysWhatItMade(t *testing.T) {
	t.Parallel()
	vendor := vendorstest.Notion(t)
	b := start(t, "notion", map[string]string{"baseUrl": vendor.URL})
	vendor.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return r.Method == http.MethodPatch
	})
	out := b.run("create_page", `{"parentId":"`+vendorstest.NotionPage+`","title":"Plan","content":"`+strings.Repeat(`line\n`, 120)+`"}`)
	require.Equal(t, "RATE_LIMIT_ERROR", out.Failure.Code)
	require.Contains(t, out.Failure.Message, "was made, with the first 100 of 120 blocks")
	require.NotContains(t, out.Failure.Message, "Try again")
}

// A copy is whole, or none is made.
func TestNotionCopiesNoPart(t *testing.T) {
	t.Parallel()
	vendor := vendorstest.Notion(t)
	b := start(t, "notion", map[string]string{"baseUrl": vendor.URL})
	vendor.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/toggle/children"):
			io.WriteString(w, `{"results":[`+strings.Repeat(`{"type":"divider","divider":{}},`, 100)+`{"type":"divider","divider":{}}]}`)
		case strings.HasSuffix(r.URL.Path, "/children"):
			io.WriteString(w, `{"results":[{"id":"toggle","type":"toggle","has_children":true,"toggle":{}}]}`)
		default:
			return false
		}
		return true
	})
	b.fails("duplicate_page", `{"pageId":"`+vendorstest.NotionPage+`","parentId":"`+vendorstest.NotionPage+`"}`, "INVALID_ARGUMENTS", "has 101 blocks below it")
	require.Empty(t, vendor.Requests("POST", "/v1/pages"))
}

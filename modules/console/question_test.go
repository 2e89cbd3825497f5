package console_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
)

// A server asks; the card of the run leads to a form of what it wants to know, and the
// program goes on with what was typed. What the server says is text.
func TestAQuestionIsAnsweredOnItsPage(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	of := hubtest.New()
	of.Add("send", `{"type":"object","properties":{}}`, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if got, ok := r.Params.InputResponses["q"].(*mcp.ElicitResult); ok {
			text, err := json.Marshal(got)
			return hubtest.Words(string(text)), err
		}
		return &mcp.CallToolResult{RequestState: "s", InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{
			Message: "To whom? <script>document.title = 'owned'</script>",
			RequestedSchema: json.RawMessage(`{"type":"object","required":["to"],"properties":{
				"to":{"type":"string","title":"Recipient","minLength":3},"copies":{"type":"integer"},"kind":{"type":"string","enum":["plain","rich"]},"sign":{"type":"boolean"}}}`),
		}}}, nil
	})
	file := filepath.Join(t.TempDir(), "mcp.yaml")
	require.NoError(t, os.WriteFile(file, []byte("servers:\n  mail:\n    url: "+hubtest.Listen(t, "mail", of.Handler()).URL+"\n    egress: [127.0.0.0/8]\n"), 0o600))
	s := apptest.Serve(t, t.TempDir(), "MCP_SERVERS_FILE="+file)
	var run struct{ ResultID string }
	a := s.Post(s.Anna, "/v1/sandbox/execute", map[string]any{"code": "print(mail__send())", "language": "python", "background": true, "toolsets": []string{"mail"}}, &run)
	require.Equal(t, http.StatusOK, a.Status, a.ErrMsg+a.ErrDetail)
	ctx, watched := browser(t)
	signedIn(ctx, t, s, s.Anna)
	ask(ctx, t, chromedp.Navigate(s.URL+"/console/runs/"+run.ResultID))
	ask(ctx, t, chromedp.Poll[bool](`document.querySelector("[data-approval] code")?.textContent.startsWith("To whom? <script>")`, often, chromedp.WithPollingTimeout(time.Minute)))
	require.Equal(t, "Decline", ask(ctx, t, chromedp.Evaluate[string](`[...document.querySelectorAll("[data-approval] button")].map((b) => b.textContent).join()`)), "nothing is allowed by one click")
	link := ask(ctx, t, chromedp.Evaluate[string](`document.querySelector("[data-approval] a").href`))
	ask(ctx, t, chromedp.Navigate(link))
	require.Equal(t, "copies kind sign to", ask(ctx, t, chromedp.Evaluate[string](`[...document.querySelectorAll("form[novalidate] label, form[novalidate] legend")].map((l) => l.firstChild.textContent.trim().split(/\s/)[0]).filter((x) => x).join(" ")`)))

	// What does not fit is said beside its field, and nothing is lost of the rest.
	cookie := sessionOf(t, s, s.Anna)
	fields := func(to string) url.Values {
		var names map[string]string
		require.NoError(t, json.Unmarshal([]byte(ask(ctx, t, chromedp.Evaluate[string](`JSON.stringify(Object.fromEntries([...document.querySelectorAll("form[novalidate] [name]")].map((i) => [i.name.split(/[./-]/).pop(), i.name])))`))), &names))
		return url.Values{"decision": {"change"}, names["to"]: {to}, names["copies"]: {"2"}}
	}
	resp, body := visit(t, link+"/decide", fields("x"), "Cookie", cookie)
	require.Equal(t, 422, resp.StatusCode, body)
	require.Contains(t, body, `value="2"`)
	resp, body = visit(t, link+"/decide", fields("anna"), "Cookie", cookie)
	require.Equal(t, 303, resp.StatusCode, body)
	var approvals struct {
		Items []struct{ ChangedArguments json.RawMessage }
	}
	get(t, s, s.Anna, "/v1/tool/approvals?state=all", &approvals)
	require.Len(t, approvals.Items, 1)
	require.Contains(t, string(approvals.Items[0].ChangedArguments), `"to":"anna"`)
	require.Contains(t, string(approvals.Items[0].ChangedArguments), `"copies":2`)
	ask(ctx, t, chromedp.Navigate(link))
	require.Contains(t, ask(ctx, t, chromedp.Evaluate[string](`document.querySelector("main").innerText`)), "Answer")
	require.NotEqual(t, "owned", ask(ctx, t, chromedp.Evaluate[string]("document.title")))
	watched.mu.Lock()
	defer watched.mu.Unlock()
	require.Empty(t, strings.Join(watched.complains, "\n"))
}

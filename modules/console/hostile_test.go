package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// often asks a tab that is not drawn, too, and has none drawn sixty times a second.
var often = chromedp.WithPollingInterval(50 * time.Millisecond)

const ended = `document.body.dataset.status === "finish"`

// What models and upstreams write is shown as text, whatever it looks like, and
// numbers are exact. Arguments that are not shown whole say so, and lead to the whole.
// What is copied as Python makes the same call.
func TestHostileTextIsText(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	ctx, seen := browser(t)
	signedIn(ctx, t, s, s.Anna)
	const evil = `</script><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`
	code := `from refly_tools.demo import Demo
evil = '` + evil + `'
Demo.save_note(title=evil[:150], text="\u202e" + evil + "javascript:alert(1)" + "x" * 70000)
Demo.convert_currency(**{"amount": 9007199254740993, "from": "USD", "to": "EUR"})
print(evil, "\u202e", "x" * 100000)
`
	var started struct{ ResultID string }
	a := s.Post(s.Anna, "/v1/sandbox/execute", map[string]any{"code": code, "language": "python", "background": true, "title": evil}, &started)
	require.Equal(t, http.StatusOK, a.Status, a.ErrMsg)
	look(ctx, t, s.URL+"/console/runs/"+started.ResultID, 1440, "light")
	ask(ctx, t, chromedp.Poll[bool](ended, often, chromedp.WithPollingTimeout(60*time.Second)))
	require.Equal(t, evil, ask(ctx, t, chromedp.Evaluate[string](`document.querySelector("h1").textContent`)))
	require.Contains(t, ask(ctx, t, chromedp.Evaluate[string](`document.querySelector(".output").textContent`)), evil)
	require.Equal(t, strings.TrimSuffix(code, "\n"), ask(ctx, t, chromedp.Evaluate[string](`[...document.querySelectorAll(".program li code")].map(c => c.textContent).join("\n")`)))
	calls := callsOf(t, s, s.Anna, started.ResultID)
	require.Len(t, calls, 2)
	for i, want := range []string{evil[:40], "9007199254740993"} {
		ask(ctx, t, chromedp.Evaluate[int](fmt.Sprintf(`document.querySelector('.row[data-call=%q]').click(); 0`, calls[i].CallID)))
		ask(ctx, t, chromedp.Poll[bool](fmt.Sprintf(`document.querySelector('[data-card=%q] pre') !== null`, calls[i].CallID), often, chromedp.WithPollingTimeout(20*time.Second)))
		text := ask(ctx, t, chromedp.Evaluate[string](fmt.Sprintf(`document.querySelector('[data-card=%q]').textContent`, calls[i].CallID)))
		require.Contains(t, strings.ReplaceAll(text, `\"`, `"`), want)
		missing := []string{"more than 70000 characters", "nothing"}[i]
		require.Equal(t, missing, ask(ctx, t, chromedp.Evaluate[string](fmt.Sprintf(wholeArguments, fmt.Sprintf("[data-card=%q]", calls[i].CallID)), chromedp.EvalAwaitPromise)), "card")
		look(ctx, t, s.URL+"/console/calls/"+calls[i].CallID, 1440, "light")
		require.Equal(t, missing, ask(ctx, t, chromedp.Evaluate[string](fmt.Sprintf(wholeArguments, "main"), chromedp.EvalAwaitPromise)), "page")
		require.Contains(t, strings.ReplaceAll(ask(ctx, t, chromedp.Evaluate[string](`document.querySelector("main").textContent`)), `\"`, `"`), want)
		look(ctx, t, s.URL+"/console/runs/"+started.ResultID, 1440, "light")
		ask(ctx, t, chromedp.Poll[bool](fmt.Sprintf(`document.querySelectorAll(".row:not([hidden])").length === 2 && %s`, ended), often, chromedp.WithPollingTimeout(20*time.Second)))
	}
	look(ctx, t, s.URL+"/console/runs", 1440, "light")
	require.Equal(t, evil, ask(ctx, t, chromedp.Evaluate[string](`document.querySelector("tbody th a").textContent`)))
	require.True(t, ask(ctx, t, chromedp.Evaluate[bool](`window.pwned === undefined`)))
	made := argumentsOf(t, s, s.Anna, started.ResultID)
	cookie := sessionOf(t, s, s.Anna)
	for i, call := range calls {
		var card struct{ Python string }
		_, text := visit(t, s.URL+"/console/calls/"+call.CallID+"/card", nil, "Cookie", cookie)
		require.NoError(t, json.Unmarshal([]byte(text), &card))
		require.Equal(t, made[i:i+1], argumentsOf(t, s, s.Anna, runs(t, s, s.Anna, card.Python)))
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	require.Empty(t, seen.complains)
}

// runs executes a program to its end, which has to be a good one.
func runs(t *testing.T, s *apptest.Server, u apptest.User, code string) (run string) {
	t.Helper()
	var ran struct{ ResultID, Status, Stderr string }
	a := s.Post(u, "/v1/sandbox/execute", map[string]any{"code": code, "language": "python"}, &ran)
	require.Equal(t, http.StatusOK, a.Status, a.ErrMsg)
	require.Equal(t, "completed", ran.Status, ran.Stderr)
	return ran.ResultID
}

// argumentsOf are the arguments of the calls of the demo that a run made.
func argumentsOf(t *testing.T, s *apptest.Server, u apptest.User, run string) (arguments []string) {
	t.Helper()
	var calls struct {
		Items []struct{ Input json.RawMessage }
	}
	get(t, s, u, "/v1/tool/calls?toolset=demo&resultId="+run, &calls)
	for _, c := range calls.Items {
		arguments = append(arguments, string(c.Input))
	}
	return arguments
}

// wholeArguments follows the link to what is missing of a call's arguments, where the
// place that a selector names has one.
const wholeArguments = `(async () => {
  const link = document.querySelector('%s').querySelector('a[href^="/v1/tool/call/result"]');
  if (!link) return "nothing";
  const { data } = await (await fetch(link.href)).json();
  return data.result.input.input.text.length > 70000 ? "more than 70000 characters" : "less";
})()`

// Over a road that cuts streams anywhere, repeats events and refuses, the page ends
// with exactly the calls that there are, each once, without being loaded again. What it
// saves of them is all.
func TestStreamsOverAHostileRoad(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	target, err := url.Parse(s.URL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		FlushInterval: -1, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	var cuts, resumed, short atomic.Int64
	long, _ := ranElsewhere(t, s, s.Anna, 1, "")
	proxy.ModifyResponse = func(r *http.Response) error {
		if strings.HasSuffix(r.Request.URL.Path, "/events") && cuts.Add(1) < 12 {
			r.Body = &shortBody{r.Body, 300 + rand.IntN(9000)}
		}
		return nil
	}
	road := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _ = recover() }() // a cut stream ends the connection
		if r.URL.Path == "/v1/action/"+long+"/events" {
			longStream(w, r, manyEvents/(1+int(short.Load())))
			return
		}
		if strings.HasSuffix(r.URL.Path, "/events") {
			if n := cuts.Load(); n == 3 || n == 6 {
				cuts.Add(1)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			q := r.URL.Query()
			if after, err := strconv.Atoi(q.Get("lastEventId")); err == nil {
				if after > 0 && r.Header.Get("Accept") == "text/event-stream" {
					resumed.Add(1)
				}
				// what was seen already comes again
				q.Set("lastEventId", strconv.Itoa(max(0, after-20)))
				r.Header.Del("Last-Event-ID")
				r.URL.RawQuery = q.Encode()
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(road.Close)
	ctx, _ := browser(t)
	here := *s
	here.URL = road.URL
	signedIn(ctx, t, &here, s.Anna)
	run := begin(s, s.Anna, t, "import random\nfrom refly_tools.demo import Demo\nfor i in range(120):\n    print(i)\n    Demo.fail() if random.random() < .3 else Demo.wait(ms=10)\n")
	look(ctx, t, road.URL+"/console/runs/"+run, 1440, "light")
	ask(ctx, t, chromedp.Evaluate[int](`window.sameDocument = 1`))
	ask(ctx, t, chromedp.Poll[bool](ended, often, chromedp.WithPollingTimeout(100*time.Second)))
	require.Greater(t, cuts.Load(), int64(5), "the road was hostile")
	require.Positive(t, resumed.Load(), "the page goes on where it was")
	require.True(t, ask(ctx, t, chromedp.Evaluate[bool](`window.sameDocument === 1`)))
	var programs struct{ Items []struct{ Stdout string } }
	get(t, s, s.Anna, "/v1/action/"+run+"/programs", &programs)
	require.Equal(t, programs.Items[0].Stdout, ask(ctx, t, chromedp.Evaluate[string](`document.querySelector(".output").textContent`)))
	var ids []string
	for _, row := range ask(ctx, t, chromedp.Evaluate[[][]string](everyRow, chromedp.EvalAwaitPromise)) {
		ids = append(ids, row[0])
	}
	var want []string
	for _, c := range callsOf(t, s, s.Anna, run) {
		want = append(want, c.CallID)
	}
	require.Equal(t, want, ids)
	require.Equal(t, strconv.Itoa(len(want)), ask(ctx, t, chromedp.Evaluate[string](`document.getElementById("calls").textContent`)))

	// All events of a long run are saved, or none.
	look(ctx, t, road.URL+"/console/runs/"+long, 1440, "light")
	ask(ctx, t, chromedp.Poll[bool](ended, often, chromedp.WithPollingTimeout(60*time.Second)))
	ask(ctx, t, chromedp.Evaluate[int](`URL.createObjectURL = (b) => { b.text().then((text) => window.saved = text.split("\n")); return "blob:x"; }; document.getElementById("download-events").click(); 0`))
	ask(ctx, t, chromedp.Poll[bool](`window.saved !== undefined`, often, chromedp.WithPollingTimeout(60*time.Second)))
	saved := ask(ctx, t, chromedp.Evaluate[[]string](`[String(saved.length), JSON.parse(saved[0]).event, JSON.parse(saved.at(-2)).event, saved.at(-1)]`))
	require.Equal(t, []string{strconv.Itoa(manyEvents + 1), "log", "end", ""}, saved)
	short.Store(1)
	ask(ctx, t, chromedp.Evaluate[int](`window.saved = "nothing"; document.getElementById("download-events").click(); 0`))
	ask(ctx, t, chromedp.Poll[bool](`document.getElementById("connection").textContent.includes("nothing was saved")`, often, chromedp.WithPollingTimeout(60*time.Second)))
	require.Equal(t, "nothing", ask(ctx, t, chromedp.Evaluate[string](`window.saved`)))
}

// manyEvents is how many events a long run has.
const manyEvents = 20_100

// longStream is so many events of a run that prints and ends, after the one that a request
// names.
func longStream(w http.ResponseWriter, r *http.Request, n int) {
	after, err := strconv.Atoi(r.URL.Query().Get("lastEventId"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i := after + 1; i <= n; i++ {
		if i < manyEvents {
			fmt.Fprintf(w, "id: %d\ndata: {\"event\":\"log\",\"log\":{\"content\":\"%d\"}}\n\n", i, i)
		} else {
			fmt.Fprintf(w, "id: %d\ndata: {\"event\":\"end\",\"status\":\"finish\"}\n\n", i)
		}
	}
}

// shortBody breaks after some bytes.
type shortBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *shortBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// large is a server whose tool answers 100 kB to every fiftieth call.
func large(t *testing.T) *apptest.Server {
	t.Helper()
	text := strings.Repeat("x", 100<<10)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.URL.Query().Get("n"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if n%50 == 0 {
			fmt.Fprintf(w, `{"text":%q}`, text)
			return
		}
		fmt.Fprintf(w, `{"text":"%d"}`, n)
	}))
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "read.yaml"), []byte(`
key: read
name: Read
domain: `+upstream.URL+`
egress: {allow: [127.0.0.0/8]}
billing: 0
methods:
  - {name: get_text, description: Reads a text., endpoint: /text, method: GET,
     request: {type: object, additionalProperties: false, required: [n], properties: {n: {type: integer}}}}
`), 0o600))
	return apptest.Serve(t, dir)
}

// A run of ten times as many calls takes no more elements, little memory, and no
// results that nobody looks at; keys act while it is read.
func TestManyCallsTakeNoMoreElements(t *testing.T) {
	testenv.Slow(t, "5,500 calls in a browser")
	t.Parallel()
	s := large(t)
	var runs []string
	counts := []int{500, 5000}
	for _, n := range counts {
		runs = append(runs, begin(s, s.Anna, t, fmt.Sprintf("from concurrent.futures import ThreadPoolExecutor\nfrom refly_tools.read import Read\nwith ThreadPoolExecutor(8) as pool:\n    list(pool.map(lambda i: Read.get_text(n=i), range(%d)))\n", n)))
		require.Eventually(t, func() bool {
			var list struct {
				Items []struct{ ResultID, Status string }
			}
			get(t, s, s.Anna, "/v1/action/list", &list) // the result has every call, whenever one looks
			return list.Items[0].ResultID == runs[len(runs)-1] && list.Items[0].Status == "finish"
		}, 5*time.Minute, 500*time.Millisecond)
	}
	ctx, seen := browser(t)
	signedIn(ctx, t, s, s.Anna)
	var elements []int
	for i, run := range runs {
		look(ctx, t, s.URL+"/console/runs/"+run, 1440, "light")
		ask(ctx, t, chromedp.KeyEvent("f")) // only those that failed, which are none
		ask(ctx, t, chromedp.Poll[bool](`document.getElementById("filter").value === "failed"`, often, chromedp.WithPollingTimeout(20*time.Second)))
		ask(ctx, t, chromedp.KeyEvent("f"))
		ask(ctx, t, chromedp.Poll[bool](ended, often, chromedp.WithPollingTimeout(90*time.Second)))
		require.Equal(t, strconv.Itoa(counts[i]), ask(ctx, t, chromedp.Evaluate[string](`document.getElementById("calls").textContent`)))
		elements = append(elements, ask(ctx, t, chromedp.Evaluate[int](`document.querySelectorAll("*").length`)))
		heap := ask(ctx, t, chromedp.Evaluate[float64](`performance.memory.usedJSHeapSize`))
		require.Less(t, heap, 30e6, "%d calls", counts[i])
		seen.mu.Lock()
		require.Greater(t, seen.fetched, int64(counts[i])*100, "what streams bring is counted")
		require.Less(t, seen.fetched, int64(4e6), "bytes of a page, with all that it loads")
		seen.fetched = 0
		seen.mu.Unlock()
	}
	require.LessOrEqual(t, elements[1], 1200)
	require.InEpsilon(t, elements[0], elements[1], 0.05)
}

// Eight tabs that follow live runs leave connections for the ninth, and all see the
// end of their run.
func TestEightTabsLeaveRoomForANinth(t *testing.T) {
	testenv.Slow(t, "nine tabs of a browser")
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	const waits = "import time\ntime.sleep(100)"
	runs := []string{begin(s, s.Anna, t, waits), begin(s, s.Anna, t, waits)}
	ctx, seen := browser(t)
	signedIn(ctx, t, s, s.Anna)
	ask(ctx, t, chromedp.Navigate(s.URL+"/console/login"))
	var tabs []context.Context
	for i := range 8 {
		tab, closeTab := chromedp.NewContext(ctx)
		t.Cleanup(closeTab)
		ask(tab, t, chromedp.Navigate(s.URL+"/console/runs/"+runs[i%2]))
		ask(tab, t, chromedp.Poll[bool](`document.body.dataset.status === "running"`, often, chromedp.WithPollingTimeout(20*time.Second)))
		tabs = append(tabs, tab)
	}
	ninth, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	ask(ninth, t, chromedp.Navigate(s.URL+"/console/files"))
	ask(ninth, t, chromedp.Evaluate[int](`const title = document.querySelector("main form input:not([type=hidden])"); title.value = "The ninth"; setTimeout(() => title.form.requestSubmit()); 0`))
	require.Eventually(t, func() bool {
		var canvases struct{ Items []struct{ Title string } }
		get(t, s, s.Anna, "/v1/canvas/list", &canvases)
		return len(canvases.Items) == 1
	}, 20*time.Second, 50*time.Millisecond)
	for _, run := range runs {
		a := s.Post(s.Anna, "/v1/action/abort", map[string]any{"resultId": run}, nil)
		require.Equal(t, http.StatusOK, a.Status, a.ErrMsg)
	}
	for _, tab := range tabs {
		ask(tab, t, chromedp.Poll[bool](`document.body.dataset.status === "aborted"`, often, chromedp.WithPollingTimeout(20*time.Second)))
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	require.Empty(t, seen.complains)
}

// Without scripts, the page of a run shows its calls as a table.
func TestARunWithoutScripts(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	ctx, _ := browser(t)
	signedIn(ctx, t, s, s.Anna)
	var ran struct{ ResultID string }
	s.Post(s.Anna, "/v1/sandbox/execute", map[string]any{"language": "python", "code": "from refly_tools.demo import Demo\nfor c in ['Rome', 'Oslo']:\n    Demo.get_weather(city=c)\nDemo.fail()\n"}, &ran)
	_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	look(ctx, t, s.URL+"/console/runs/"+ran.ResultID, 1440, "light")
	text := ask(ctx, t, chromedp.Text(chromedp.CSS("main")))
	require.Equal(t, 2, strings.Count(text, "demo · get_weather"))
	require.Contains(t, text, "This endpoint always fails")
	for _, path := range []string{"/runs", "/playground", "/login", "/calls/" + callsOf(t, s, s.Anna, ran.ResultID)[0].CallID} {
		look(ctx, t, s.URL+"/console"+path, 400, "dark")
		require.NotEmpty(t, ask(ctx, t, chromedp.Text(chromedp.CSS("h1"))))
	}
}

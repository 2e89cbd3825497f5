package console_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// seen is what a browser does besides showing a page.
type seen struct {
	mu        sync.Mutex
	requests  []string
	complains []string // its console
	fetched   int64    // bytes of what it loads, streams too
	failed    []string // requests that did, other than those that a page took back
}

func (s *seen) listen(event any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		s.requests = append(s.requests, e.Request.URL)
	case *network.EventDataReceived:
		s.fetched += e.DataLength
	case *network.EventLoadingFailed:
		if !e.Canceled {
			s.failed = append(s.failed, e.ErrorText)
		}
	case *log.EventEntryAdded:
		s.complains = append(s.complains, e.Entry.Text+" "+e.Entry.URL)
	case *runtime.EventExceptionThrown:
		s.complains = append(s.complains, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		s.complains = append(s.complains, "console."+string(e.Type))
	}
}

// chromium is the one of all tests that open a page: to start one takes two seconds of
// a processor.
type chromium struct {
	begin sync.Once
	ctx   context.Context //nolint:containedctx // what chromedp calls a browser
	err   error
	end   []func()
}

// It ends with the process, after the last test.
var theChromium chromium

func TestMain(m *testing.M) {
	code := m.Run()
	for _, end := range slices.Backward(theChromium.end) {
		end()
	}
	os.Exit(code)
}

func (c *chromium) start(program string) {
	home, err := os.MkdirTemp("", "chromium")
	if err != nil {
		c.err = err
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		// Chromium has no sandbox of its own under root. The pages are ours.
		chromedp.NoSandbox, chromedp.ExecPath(program), chromedp.UserDataDir(home), chromedp.Env("HOME="+home),
		// What moves is drawn sixty times a second, while tests wait for something else.
		chromedp.Flag("force-prefers-reduced-motion", true), chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-software-rasterizer", true))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(ctx)
	c.end = append(c.end, func() { _ = os.RemoveAll(home) }, stop, closeTab)
	c.ctx = ctx
	_, c.err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
}

// browser is a window of the Chromium that ends with the test, and shares nothing
// with the others. It thinks that it has the keyboard.
func browser(t *testing.T) (context.Context, *seen) {
	t.Helper()
	program := testenv.Need(t, "PORTICO_CHROMIUM", "tools/chromium.sh prints it")
	theChromium.begin.Do(func() { theChromium.start(program) })
	require.NoError(t, theChromium.err)
	ctx, cancel := context.WithTimeout(theChromium.ctx, 20*time.Minute)
	t.Cleanup(cancel)
	s := &seen{}
	ctx, closeTab := chromedp.NewContext(ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(s.listen))
	t.Cleanup(closeTab)
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	require.NoError(t, err)
	return ctx, s
}

func ask[T any](ctx context.Context, t *testing.T, a chromedp.Action[T]) T {
	t.Helper()
	answer, err := chromedp.Run(ctx, a)
	require.NoError(t, err)
	return answer
}

// look shows a page at a width, in a colour scheme.
func look(ctx context.Context, t *testing.T, page string, width int64, scheme string) {
	t.Helper()
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme},
			{Name: "prefers-reduced-motion", Value: "reduce"}, // a colour that fades in has no contrast yet
		},
	})
	require.NoError(t, err)
	ask(ctx, t, chromedp.EmulateViewport(width, 844))
	ask(ctx, t, chromedp.Navigate(page))
}

// A browser shows the pages without a complaint and asks nobody else for
// anything, in light and dark, on a desk and on a phone.
func TestPagesInABrowser(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets", "CONSOLE_ENABLED=false")
	ctx, seen := browser(t)
	for _, path := range []string{"/", "/docs"} {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1280, 360} {
				look(ctx, t, s.URL+path, width, scheme)
				ask(ctx, t, chromedp.Evaluate[int](`document.querySelectorAll("details").forEach(d => d.open = true)`+"; 0"))
				over := ask(ctx, t, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`))
				require.LessOrEqual(t, over, width, "%s scrolls sideways", path)
				cut := ask(ctx, t, chromedp.Evaluate[[]string](beyond))
				require.Empty(t, cut, "%s in %d pixels", path, width)
				require.Empty(t, ask(ctx, t, chromedp.Evaluate[[]string](broken)), "%s in %d pixels: words over several lines", path, width)
			}
			light := ask(ctx, t, chromedp.Evaluate[[]float64](lights))
			require.Equal(t, scheme == "light", light[0] < light[1], "%s, %s: text on its background: %v", path, scheme, light)
			require.Greater(t, (max(light[0], light[1])+0.05)/(min(light[0], light[1])+0.05), 4.5, "%s, %s: contrast", path, scheme)
		}
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	require.Empty(t, seen.complains)
	require.Len(t, seen.requests, 8, "a page is one request")
	for _, r := range seen.requests {
		require.True(t, strings.HasPrefix(r, s.URL+"/"), r)
	}
}

// beyond lists what is wider than the window.
const beyond = `[...document.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.textContent.slice(0, 80))`

// broken lists the cells of a table whose one short word does not fit in a line.
const broken = `[...document.querySelectorAll("th, td")].filter(e => /^\w{1,7}$/.test(e.textContent)).filter(e => {
  const words = document.createRange();
  words.selectNodeContents(e);
  const tops = [...words.getClientRects()].map(r => r.top);
  return Math.max(...tops) - Math.min(...tops) > 4;
}).map(e => e.textContent)`

// lights is how light the text is and what is behind it, as WCAG defines it.
// The colours are painted, because only then a system colour has numbers.
const lights = `(() => {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.background = "Canvas";
  return [getComputedStyle(document.body).color, getComputedStyle(probe).backgroundColor].map(color => {
    const c = document.createElement("canvas").getContext("2d");
    c.fillStyle = color; c.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...c.getImageData(0, 0, 1, 1).data].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  });
})()`

// A click on an operation opens what is sent and answered, with examples; a link to
// a schema opens that.
func TestAnOperationOpens(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	ctx, _ := browser(t)
	look(ctx, t, s.URL+"/docs", 1280, "light")
	const inside = "#execute-tool"
	require.False(t, ask(ctx, t, chromedp.Evaluate[bool](`document.querySelector("`+inside+`").checkVisibility()`)))
	ask(ctx, t, chromedp.Click(chromedp.Search(`//summary[code="/v1/tool/execute"]`)))
	text := ask(ctx, t, chromedp.Text(chromedp.CSS(inside)))
	for _, want := range []string{
		"Idempotency-Key", "Body", "toolsetKey", "1 to 128 characters", "arguments", `"city": "Rome"`, // what is sent
		"200 OK", "data.status", "data.errorCode", `"status": "success"`, // what comes back
		"401", "Retry-After",
	} {
		require.Contains(t, text, want)
	}
	ask(ctx, t, chromedp.Click(chromedp.CSS(inside+` a[href="#schema-ExecuteBody"]`)))
	ask(ctx, t, chromedp.Poll[bool](`document.querySelector("#schema-ExecuteBody")?.closest("details").open`, often, chromedp.WithPollingTimeout(20*time.Second)))
	top := ask(ctx, t, chromedp.Evaluate[float64](`document.querySelector("#schema-ExecuteBody").closest("details").getBoundingClientRect().top`))
	require.GreaterOrEqual(t, top, 0.0, "its name is in sight")
	require.Less(t, top, 844.0)
}

// An operation is tried with the session of the browser: what was sent is recorded
// as its user's, numbers are shown as they are, and nothing is done without a session.
func TestAnOperationIsTried(t *testing.T) {
	testenv.Slow(t, "a browser")
	t.Parallel()
	s := apptest.Serve(t, "../../configs/toolsets")
	ctx, seen := browser(t)
	try := func(id, path, with string) string {
		t.Helper()
		look(ctx, t, s.URL+"/docs", 1280, "light")
		ask(ctx, t, chromedp.Evaluate[int](`document.querySelector("#`+id+`").closest("details").open = true; 0`))
		ask(ctx, t, chromedp.Poll[bool](`!!document.querySelector("#`+id+` form.try")`, often, chromedp.WithPollingTimeout(20*time.Second)))
		ask(ctx, t, chromedp.Evaluate[int](with+"; 0"))
		ask(ctx, t, chromedp.Evaluate[int](`document.querySelector("#`+id+` form.try").requestSubmit(); 0`))
		ask(ctx, t, chromedp.Poll[bool](`document.querySelector("#`+id+` .try .primary").disabled === false && /^[0-9]/.test(document.querySelector("#`+id+` .try [role=status]").textContent)`, often, chromedp.WithPollingTimeout(20*time.Second)))
		return ask(ctx, t, chromedp.Evaluate[string](`document.querySelector("#`+id+` .try").textContent`))
	}
	require.Contains(t, try("execute-tool", "/v1/tool/execute", "0"), "401 Unauthorized")
	signedIn(ctx, t, s, s.Anna)
	said := try("execute-tool", "/v1/tool/execute", `document.querySelector("#execute-tool textarea").value = '{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":"Lima"}}'`)
	require.Contains(t, said, "200 OK")
	require.Contains(t, said, `"city": "Lima"`)
	var calls struct {
		Items []struct {
			CallID, ToolName string
			Input            map[string]any
		}
	}
	get(t, s, s.Anna, "/v1/tool/calls", &calls)
	require.Len(t, calls.Items, 1)
	require.Equal(t, "get_weather", calls.Items[0].ToolName)
	said = try("list-tool-calls", "/v1/tool/calls", `document.querySelector("#list-tool-calls [name=tool]").value = "no such tool"`)
	require.NotContains(t, said, calls.Items[0].CallID, "the filter is sent")
	seen.mu.Lock()
	defer seen.mu.Unlock()
	require.Len(t, seen.complains, 1, "the browser says that 401 was one: %v", seen.complains)
}

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// The runs whose page is measured have so many calls.
const fewCalls, manyCalls = 500, 5000

// benchConsole measures the page of a run: what it weighs, and what it takes to show
// a run of many calls that has ended. The browser is Chromium, PORTICO_CHROMIUM.
func benchConsole(ctx context.Context, o options) (_ []result, err error) {
	chromium := os.Getenv("PORTICO_CHROMIUM")
	if chromium == "" {
		return nil, errors.New("PORTICO_CHROMIUM is not set: tools/chromium.sh prints it")
	}
	p, err := startPortico(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	few, err := p.calling(ctx, fewCalls)
	if err != nil {
		return nil, err
	}
	many, err := p.calling(ctx, manyCalls)
	if err != nil {
		return nil, err
	}
	cookie, err := p.signIn(ctx)
	if err != nil {
		return nil, err
	}
	page, scripts, err := p.weigh(ctx, cookie, "/console/runs/"+few)
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(chromium))
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	defer stop()
	var elements [2]int
	show := func(which int, run string) func(context.Context, time.Duration) (float64, error) {
		return func(context.Context, time.Duration) (float64, error) {
			took, n, err := replay(ctx, p.url, cookie, run)
			elements[which] = n
			return took, err
		}
	}
	s, err := takeTurns(ctx, o, show(0, many), show(1, few))
	if err != nil {
		return nil, err
	}
	row := bounded(fmt.Sprintf("processor time of the page of a run with %d calls (%d)", manyCalls, fewCalls), s[0].median(), 1500, "%.0f ms")
	row.baseline, row.noise = s[1].milliseconds(), s[0].spread()
	ratio := s[0].over(s[1]).median()
	row.ratio, row.target = fmt.Sprintf("%.1f", ratio), row.target+", 15 times"
	row.holds = row.holds && ratio <= 15
	return []result{
		row,
		bounded(fmt.Sprintf("elements of that page (%d with %d calls)", elements[1], fewCalls), float64(elements[0]), 1200, "%.0f"),
		bounded("page of a run with all that it loads, compressed", float64(page)/1000, 60, "%.1f kB"),
		bounded("its scripts, compressed", float64(scripts)/1000, 25, "%.1f kB"),
	}, nil
}

// calling runs a program that makes so many calls.
func (p *portico) calling(ctx context.Context, calls int) (run string, err error) {
	text, err := json.Marshal(map[string]any{"language": "python", "toolsets": []string{"demo"}, "timeout": 120_000, "code": fmt.Sprintf(
		"from concurrent.futures import ThreadPoolExecutor\nfrom refly_tools.demo import Demo\nwith ThreadPoolExecutor(8) as pool:\n    list(pool.map(lambda i: Demo.wait(ms=0), range(%d)))", calls)})
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/sandbox/execute", bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	r.Header.Set("X-API-Key", p.keys[0])
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var a struct {
		ErrMsg string
		Data   struct {
			ResultID, Status, Stderr string
			ToolCallsMade            int
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return "", err
	}
	if a.Data.Status != "completed" || a.Data.ToolCallsMade != calls {
		return "", fmt.Errorf("the program ended %s after %d calls: %s%s", a.Data.Status, a.Data.ToolCallsMade, a.ErrMsg, a.Data.Stderr)
	}
	return a.Data.ResultID, nil
}

// signIn begins a session of the first user's, as a browser does.
func (p *portico) signIn(ctx context.Context) (*http.Cookie, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/console/login", strings.NewReader(url.Values{"apiKey": {p.keys[0]}}.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if len(resp.Cookies()) != 1 {
		return nil, fmt.Errorf("signing in: %s", resp.Status)
	}
	return resp.Cookies()[0], nil
}

var loaded = regexp.MustCompile(`(?:src|href)="(/console/static/[^"#]+)"|from "\./([a-z]+\.js)"`)

// weigh adds up a page and the files that it loads, compressed: everything, and the
// scripts.
func (p *portico) weigh(ctx context.Context, cookie *http.Cookie, path string) (all, scripts int, err error) {
	base := ""
	known := map[string]bool{path: true}
	for queue := []string{path}; len(queue) > 0; queue = queue[1:] {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+queue[0], http.NoBody)
		if err != nil {
			return 0, 0, err
		}
		r.AddCookie(cookie)
		text, err := body(r)
		if err != nil {
			return 0, 0, err
		}
		var small bytes.Buffer
		w := gzip.NewWriter(&small)
		_, err = w.Write(text)
		if err = errors.Join(err, w.Close()); err != nil {
			return 0, 0, err
		}
		all += small.Len()
		if strings.HasSuffix(queue[0], ".js") {
			scripts += small.Len()
		}
		for _, m := range loaded.FindAllStringSubmatch(string(text), -1) {
			next := m[1]
			if next == "" {
				next = base + m[2]
			} else {
				base = next[:strings.LastIndex(next, "/")+1]
			}
			if !known[next] {
				known[next] = true
				queue = append(queue, next)
			}
		}
	}
	return all, scripts, nil
}

func body(r *http.Request) ([]byte, error) {
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", r.URL.Path, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// replay shows a run in a new tab until its end, and returns the milliseconds of
// processor time that the page took, and how many elements it has then.
func replay(ctx context.Context, server string, cookie *http.Cookie, run string) (took float64, elements int, err error) {
	tab, closeTab := chromedp.NewContext(ctx)
	defer closeTab()
	if _, err := chromedp.Run(tab, chromedp.EmulateViewport(1440, 844)); err != nil {
		return 0, 0, err
	}
	if _, err := chromedp.Call(tab, network.SetCookie, network.SetCookieParams{Name: cookie.Name, Value: cookie.Value, URL: server}); err != nil {
		return 0, 0, err
	}
	if _, err := chromedp.Call(tab, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
		return 0, 0, err
	}
	if _, err := chromedp.Run(tab, chromedp.Navigate(server+"/console/runs/"+run)); err != nil {
		return 0, 0, err
	}
	if _, err := chromedp.Run(tab, chromedp.Poll[bool](`document.body.dataset.status === "finish"`, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(time.Minute))); err != nil {
		return 0, 0, err
	}
	if elements, err = chromedp.Run(tab, chromedp.Evaluate[int](`document.querySelectorAll("*").length`)); err != nil {
		return 0, 0, err
	}
	m, err := chromedp.Call(tab, performance.GetMetrics, struct{}{})
	if err != nil {
		return 0, 0, err
	}
	for _, one := range m.Metrics {
		if one.Name == "TaskDuration" {
			return one.Value * 1000, elements, nil
		}
	}
	return 0, 0, errors.New("the browser does not say what the page took")
}

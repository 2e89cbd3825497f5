package console_test

import (
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

const (
	// alone says that this process has a network of its own, with nothing in it.
	alone = "PORTICO_TEST_ALONE"
	// opened opens everything that can be.
	opened = `document.querySelectorAll("details").forEach(d => d.open = true); 0`
	// violations are what axe finds.
	violations = `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.html.slice(0, 200) + " " + n.any.map(a => a.message).join(" "))))`
	// kinds leaves one row of each kind in a very long page: rows are of one kind if
	// they, what they are in and what is in them have the same names and classes, and
	// words in the same places. They have the same colours then. The reference of the
	// API has 5,000 rows of 50 kinds, and axe takes milliseconds for each cell.
	kinds = `(() => {
  if (document.querySelectorAll("*").length < 10000) return 0;
  const known = new Set();
  const name = e => e.tagName + "." + e.className;
  const rows = [...document.querySelectorAll("tr")].filter(row => {
    const words = [...row.querySelectorAll("*")].map(e => name(e) + e.parentElement.children.length + (e.textContent.trim() !== ""));
    for (let e = row; e; e = e.parentElement) words.push(name(e));
    const kind = words.join(" "), again = known.has(kind);
    known.add(kind);
    return again;
  });
  rows.forEach(row => row.remove());
  return rows.length;
})()`
)

// Every page that links lead to, as the server shows it where it and the browser have
// nothing but each other: no request fails, it asks nobody else for anything, the
// browser complains of nothing, axe finds nothing, and it does not scroll sideways,
// in light and dark, on a desk, enlarged there, and on a phone.
func TestEveryPageIsLocalAndAccessible(t *testing.T) {
	testenv.Slow(t, "every page in a browser, three ways")
	t.Parallel()
	if !withoutNetwork(t) {
		return
	}
	axe, err := os.ReadFile(testenv.Need(t, "PORTICO_AXE", "tools/axe.sh prints it"))
	require.NoError(t, err)
	s := apptest.Serve(t, "../../configs/toolsets")
	a := s.Post(s.Anna, "/v1/sandbox/execute", map[string]any{
		"title": "Weather", "language": "python", "toolsets": []string{"demo"},
		"code": "from refly_tools.demo import Demo\nprint(Demo.get_weather(city='Rome', file_name_title='x'))\nDemo.fail(file_name_title='x')",
	}, nil)
	require.Equal(t, http.StatusOK, a.Status, a.ErrMsg)
	s.Post(s.Anna, "/v1/canvas/create", map[string]any{"title": "Cities"}, nil)
	paths := slices.Sorted(maps.Keys(visitorOf(t, s, s.Anna).crawl()))
	paths = append(paths, "/docs", consent(t, s, "Notes", "http://127.0.0.1:7100/back"))
	ctx, seen := browser(t)
	signedIn(ctx, t, s, s.Anna)
	_, err = chromedp.Call(ctx, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}) // for axe; that the policy is kept is another test's
	require.NoError(t, err)
	var found []string
	for _, path := range paths {
		if strings.HasSuffix(path, ".csv") {
			continue // a download
		}
		examine := func(width int64, view string) {
			if ask(ctx, t, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`)) > width {
				found = append(found, path+" scrolls sideways, "+view+": "+strings.Join(ask(ctx, t, chromedp.Evaluate[[]string](beyond)), " | "))
			}
			if view != "light" { // which has shown axe every row
				ask(ctx, t, chromedp.Evaluate[int](kinds))
			}
			for _, wrong := range ask(ctx, t, chromedp.Evaluate[[]string](violations, chromedp.EvalAwaitPromise)) {
				found = append(found, path+" "+view+": "+wrong)
			}
		}
		for _, view := range []string{"light", "dark"} {
			width := map[string]int64{"light": 1440, "dark": 400}[view]
			look(ctx, t, s.URL+path, width, view)
			ask(ctx, t, chromedp.Evaluate[int](opened))
			ask(ctx, t, chromedp.Evaluate[int](string(axe)+"; 0"))
			examine(width, view)
			if view == "light" { // 1440 pixels, enlarged to 200 %
				ask(ctx, t, chromedp.EmulateViewport(720, 844, chromedp.EmulateScale(2)))
				examine(720, "enlarged")
			}
		}
	}
	require.Empty(t, strings.Join(found, "\n"))
	seen.mu.Lock()
	defer seen.mu.Unlock()
	require.Empty(t, seen.failed)
	require.Empty(t, seen.complains)
	for _, r := range seen.requests {
		require.True(t, strings.HasPrefix(r, s.URL+"/") || strings.HasPrefix(r, "data:"), r) // Chromium draws its fields with the latter
	}
	require.Greater(t, len(seen.requests), len(paths))
}

// withoutNetwork runs the test in a process that has a network of its own, with
// nothing in it, and says whether this is that process.
func withoutNetwork(t *testing.T) bool {
	t.Helper()
	if _, is := os.LookupEnv(alone); !is {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), alone+"=1")
		again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if me := os.Getuid(); me != 0 {
			again.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: me, Size: 1}}
		}
		said, err := again.CombinedOutput()
		require.NoError(t, err, "%s", said)
		require.Contains(t, string(said), "--- PASS: "+t.Name())
		return false
	}
	raiseLoopback(t)
	var dialer net.Dialer
	_, err := dialer.DialContext(t.Context(), "tcp", "192.0.2.1:80")
	require.ErrorIs(t, err, syscall.ENETUNREACH)
	return true
}

// raiseLoopback lets a new network namespace reach itself.
func raiseLoopback(t *testing.T) {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	require.NoError(t, err)
	defer func() { _ = syscall.Close(socket) }()
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(request.name[:], "lo")
	_, _, failed := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	require.Zero(t, failed)
}

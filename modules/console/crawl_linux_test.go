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
	// violations are what axe finds with some of its rules, or with all.
	violations = `axe.run(document, {resultTypes: ["violations"], ...RULES}).then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.html.slice(0, 200) + " " + n.any.map(a => a.message).join(" "))))`
	// everything, most and few are sets of rules: all, all but those that depend on
	// colours and sizes, and these.
	everything = `{}`
	most       = `{rules: {"color-contrast": {enabled: false}, "link-in-text-block": {enabled: false}}}`
	few        = `{runOnly: ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "css-orientation-lock"]}`
	// elements counts what is on a page.
	elements = `document.querySelectorAll("*").length`
	// kinds leaves one element of each kind: elements are of one kind if they, what they
	// are in and what is in them have the same names and classes, words in the same
	// places, and the same looks. The reference of the API has 37,000 elements, and axe
	// takes milliseconds to see the contrast of each.
	kinds = `(() => {
  const known = new Set(), looks = new Map(), numbers = new Map();
  const number = text => numbers.get(text) ?? (numbers.set(text, numbers.size), numbers.size - 1);
  const all = [...document.body.querySelectorAll("*")];
  for (const e of [document.documentElement, document.body, ...all]) {
    const s = getComputedStyle(e);
    looks.set(e, number([e.tagName, e.getAttribute("class"), s.color, s.backgroundColor, s.backgroundImage, s.opacity, s.filter, s.mixBlendMode, s.textShadow, s.textDecoration,
      s.fontSize, s.fontWeight, s.position, s.float, s.zIndex, s.display, s.visibility, s.overflow, e.textContent.trim() !== ""].join()));
  }
  const gone = all.filter(e => {
    if (!e.isConnected) return false;
    const kind = [...e.querySelectorAll("*")].map(inside => looks.get(inside) + "." + inside.parentElement.children.length);
    for (let at = e; at; at = at.parentElement) kind.push(looks.get(at));
    const words = kind.join(" "), again = known.has(words);
    known.add(words);
    if (again) e.remove();
    return again;
  });
  return gone.length;
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
		fits := func(width int64, view string) {
			if ask(ctx, t, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`)) > width {
				found = append(found, path+" scrolls sideways, "+view+": "+strings.Join(ask(ctx, t, chromedp.Evaluate[[]string](beyond)), " | "))
			}
		}
		examine := func(view, rules string) {
			for _, wrong := range ask(ctx, t, chromedp.Evaluate[[]string](strings.Replace(violations, "RULES", rules, 1), chromedp.EvalAwaitPromise)) {
				found = append(found, path+" "+view+": "+wrong)
			}
		}
		open := func(width int64, scheme string) (long bool) {
			look(ctx, t, s.URL+path, width, scheme)
			ask(ctx, t, chromedp.Evaluate[int](opened))
			ask(ctx, t, chromedp.Evaluate[int](string(axe)+"; 0"))
			fits(width, scheme)
			return ask(ctx, t, chromedp.Evaluate[int](elements)) > 10000
		}
		long := open(1440, "light")
		if long {
			examine("light", most) // the others see one of each kind, below
		} else {
			examine("light", everything)
		}
		ask(ctx, t, chromedp.EmulateViewport(720, 844, chromedp.EmulateScale(2))) // 1440 pixels, enlarged to 200 %
		fits(720, "enlarged")
		if long {
			ask(ctx, t, chromedp.Evaluate[int](kinds))
		}
		examine("enlarged", few)
		if long {
			ask(ctx, t, chromedp.EmulateViewport(1440, 844))
			examine("light", few)
		}
		if open(400, "dark") {
			ask(ctx, t, chromedp.Evaluate[int](kinds))
			examine("dark", few)
		} else {
			examine("dark", everything)
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

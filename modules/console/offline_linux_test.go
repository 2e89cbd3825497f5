package console_test

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// alone says that this process has a network of its own, with nothing in it.
const alone = "PORTICO_TEST_ALONE"

// The server and the browser have nothing but each other: every page that links lead
// to is shown, no request fails, and the browser complains of nothing.
func TestEveryPageWithoutANetwork(t *testing.T) {
	testenv.Slow(t, "every page in a browser")
	t.Parallel()
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
		return
	}
	raiseLoopback(t)
	var dialer net.Dialer
	_, err := dialer.DialContext(t.Context(), "tcp", "192.0.2.1:80")
	require.ErrorIs(t, err, syscall.ENETUNREACH)

	s := apptest.Serve(t, "../../configs/toolsets")
	s.Post(s.Anna, "/v1/sandbox/execute", map[string]any{"language": "python", "toolsets": []string{"demo"}, "code": "print(get_weather(city='Rome'))\nfail()"}, nil)
	paths := append(slices.Sorted(maps.Keys(visitorOf(t, s, s.Anna).crawl())), "/docs")
	ctx, seen := browser(t)
	signedIn(ctx, t, s, s.Anna)
	for _, path := range paths {
		if !strings.HasSuffix(path, ".csv") { // a download
			look(ctx, t, s.URL+path, 1280, "light")
		}
	}
	require.NotEmpty(t, ask(ctx, t, chromedp.Title()))
	seen.mu.Lock()
	defer seen.mu.Unlock()
	require.Greater(t, len(seen.requests), len(paths))
	require.Empty(t, seen.failed)
	require.Empty(t, seen.complains)
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

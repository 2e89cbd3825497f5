package mcpserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/program/mcpserver"
	"github.com/portico-run/portico/modules/program/mcpserver/kept"
)

// A user waits in so many calls and no more, which keeps nobody else; whose call ends
// makes room for another.
func TestAUserWaitsInSoManyCalls(t *testing.T) {
	t.Parallel()
	m := mcpserver.New(mcpserver.Deps{})
	var leave []func()
	for range mcpserver.MaxWaiting {
		end, err := m.Enter("u-anna")
		require.NoError(t, err)
		leave = append(leave, end)
	}
	_, err := m.Enter("u-anna")
	require.Equal(t, errs.RateLimited, errs.CodeOf(err))
	end, err := m.Enter("u-ben")
	require.NoError(t, err)
	end()
	leave[0]()
	again, err := m.Enter("u-anna")
	require.NoError(t, err)
	again()
	for _, end := range leave[1:] {
		end()
	}
}

// What a list of tools costs where the server object is kept, and where it is made.
func BenchmarkRequest(b *testing.B) {
	m := mcpserver.New(mcpserver.Deps{})
	for name, most := range map[string]int{"kept": 10, "made": -1} {
		k := kept.New(kept.Settings{Build: m.Build, Servers: most, MaxBody: 4 << 20})
		who := actor.Actor{UID: "u-anna"}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
				r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
				w := httptest.NewRecorder()
				kept.Bring(w, r, who, func(w http.ResponseWriter, r *http.Request) { k.Serve(w, r, who) })
				if !strings.Contains(w.Body.String(), "run_code") {
					b.Fatal(w.Body.String())
				}
			}
		})
	}
}

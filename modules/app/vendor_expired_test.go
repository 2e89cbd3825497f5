// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// A client whose functions take longer than a paused program waits is told so, once, by
// the error that its vendor's library has for it, with what to do about it. Nothing runs
// or is sampled again.
//
//nolint:paralleltest,tparallel // one client after the other: each waits until there is no program
func TestVendorsOwnClientsComeTooLate(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	root := testenv.Need(t, "PORTICO_VENDORS", "tools/vendors.sh installs the clients")
	model, err := scripted.Load("testdata/vendors/model.yaml")
	require.NoError(t, err)
	upstream := httptest.NewServer(scripted.New(model))
	t.Cleanup(upstream.Close)
	s := serve(t, databasetest.URL(t, database.SQLite), "MODEL_NAME=scripted", "MODEL_BASE_URL="+upstream.URL, "MODEL_API_KEY=sk-model-secret", "MODEL_INPUT_PRICE=300", "MODEL_OUTPUT_PRICE=1200", "CODEAPI_IDLE_MS=1000")
	for _, c := range vendorClients(root) {
		t.Run(c.name, func(t *testing.T) {
			proxy := newLossy(t, s.url, nil)
			var jobs []vendorJob
			for mode := range c.modes {
				for _, scenario := range []string{"two_pauses", "stream"} {
					if mode == "chat" {
						scenario = map[string]string{"two_pauses": "chat_program", "stream": "chat_stream"}[scenario]
					}
					job := c.job(s, mode, scenario)
					job.URL = proxy.url + "/" + job.Name
					jobs = append(jobs, job)
				}
			}
			// A request waits here, as a client does for its functions: no program is left.
			over := func() bool {
				begun := s.count("SELECT count(*) FROM code_executions")
				return begun == 0 || strings.Contains(s.send(s.key, "GET", "/metrics", nil).raw, fmt.Sprintf(`portico_code_programs_total{cause="idle"} %d`+"\n", begun))
			}
			proxy.before = func(string) {
				tick := time.NewTicker(100 * time.Millisecond)
				defer tick.Stop()
				for !over() { // run ends it where that never comes
					select {
					case <-tick.C:
					case <-t.Context().Done():
						return
					}
				}
			}
			seen := c.run(t, jobs)
			for _, job := range jobs {
				require.Contains(t, seen, job.Name)
				t.Run(job.Name, func(t *testing.T) { c.checkLate(t, s, job, seen[job.Name], proxy.of(job.Name)) })
			}
		})
	}
}

// checkLate compares what became of a conversation whose program did not wait.
func (c vendorClient) checkLate(t *testing.T, s *instance, job vendorJob, seen vendorSeen, told *traffic) {
	t.Helper()
	require.NotNil(t, seen.Failed, "%+v", seen)
	require.Equal(t, http.StatusNotFound, seen.Failed.Status)
	require.Contains(t, seen.Failed.Message, "The program that waited for them has expired, or has ended. Begin the conversation anew.")
	if strings.HasPrefix(c.name, "Vercel") {
		require.Equal(t, "APICallError", seen.Failed.Name)
	} else {
		require.Equal(t, "NotFoundError", seen.Failed.Name)
		anthropic := strings.HasPrefix(c.name, "Anthropic")
		require.Equal(t, map[bool][2]string{true: {"not_found_error", "container_expired"}, false: {"invalid_request_error", ""}}[anthropic], [2]string{seen.Failed.Type, seen.Failed.Code})
	}
	refused := []int{http.StatusNotFound} // once
	if job.Mode == "runner" {
		refused = append([]int{http.StatusBadRequest}, refused...) // there are no threads
	}
	require.Equal(t, refused, told.refused)
	sampled := 1
	if job.Mode == "previous" && c.name == "OpenAI Agents of npm" {
		sampled++ // the greeting
	}
	require.Equal(t, sampled, s.count("SELECT count(*) FROM credit_usages WHERE uid = ? AND usage_type = 'model_call'", job.uid))
	require.Equal(t, 1, s.count("SELECT count(*) FROM code_executions WHERE uid = ?", job.uid))
}

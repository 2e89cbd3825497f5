package app_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/internal/testenv/poolertest"
)

// Two servers behind PgBouncer: runs of one are watched live at the other, which would
// not look by itself for a minute, and all is charged once.
func TestServersBehindAPooler(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	direct := databasetest.URL(t, database.Postgres)
	pooled := poolertest.Start(t, direct)
	worker := serve(t, pooled, "DATABASE_DIRECT_URL="+direct, "SANDBOX_MAX_CONCURRENT=12")
	watcher := serve(t, pooled, "DATABASE_DIRECT_URL="+direct, "PTC_POLL_INTERVAL_MS=60000")
	var all sync.WaitGroup
	for range 3 {
		id := ids.New(ids.Run)
		all.Go(func() { worker.run(map[string]any{"code": many, "resultId": id}) })
		all.Go(func() {
			events, ended := watcher.watch(t.Context(), worker.key, id, 0, 1<<30)
			if !ended || len(events) != 1+2+400+1+1 {
				t.Errorf("%d events, ended: %v", len(events), ended)
			}
		})
	}
	all.Wait()
	require.Equal(t, 600, worker.count(`SELECT count(*) FROM credit_usages`))
	require.Zero(t, worker.count(`SELECT count(*) FROM tool_call_results WHERE status <> 'completed'`))
}

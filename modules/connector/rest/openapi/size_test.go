//go:build !race

package openapi_test

import (
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/connector/rest/openapi"
)

// A document of 5 MB is imported in fifteen seconds of the processor and 300 MiB.
func TestLargeDocumentIsBounded(t *testing.T) { //nolint:paralleltest // it looks at the memory of the process
	testenv.Slow(t, "a document of five megabytes")
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as the program has it
	text, size := document(t, 4200)
	require.Greater(t, size, 5_000_000)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := processor(t)
	made, err := openapi.Convert(t.Context(), text, openapi.Options{Key: "pets", Price: "1"})
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	took := processor(t) - start
	t.Logf("%d bytes: %s of the processor, %d MiB more of the system", size, took, (after.Sys-before.Sys)>>20)
	require.Less(t, took, 15*time.Second)
	require.Less(t, after.Sys-before.Sys, uint64(300<<20))
	require.Less(t, len(made.File), 2*size)
	require.Equal(t, 4200, made.Methods)
}

// processor is how much of it this process has used, which does not depend on how busy
// the machine is.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// What an import takes and stores grows with the document, not with how often
// its schemas are named.
func TestImportGrowsWithTheDocument(t *testing.T) { //nolint:paralleltest // it counts allocations
	testenv.Slow(t, "documents of some megabytes")
	var before float64
	for _, operations := range []int{250, 500, 1000} {
		text, size := document(t, operations)
		var from, to runtime.MemStats
		runtime.ReadMemStats(&from)
		made, err := openapi.Convert(t.Context(), text, openapi.Options{Key: "large", Price: "1"})
		spec := stored(t, made, err)
		runtime.ReadMemStats(&to)
		kept := 0
		for _, s := range spec.Schemas {
			kept += len(s)
		}
		for _, m := range spec.Methods {
			kept += len(m.Request) + len(m.Response) + len(m.Description) + len(m.Endpoint)
		}
		require.Less(t, float64(kept)/float64(size), 1.2, "bytes stored for each of the document")
		taken := float64(to.TotalAlloc-from.TotalAlloc) / float64(size)
		t.Logf("%d bytes: %.0f allocated and %.2f stored for each", size, taken, float64(kept)/float64(size))
		require.Less(t, taken, 600.0)
		if before > 0 {
			require.Less(t, taken, 1.15*before, "bytes allocated for each of the document")
		}
		before = taken
	}
}

package app

import (
	"context"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"

	"github.com/portico-run/portico/internal/lifecycle"
)

const (
	// idleEvery is how often an idler looks.
	idleEvery = 500 * time.Millisecond
	// quiet is the most bytes that an idle server allocates meanwhile, and worth
	// the fewest whose garbage is collected before its time.
	quiet, worth = 512 << 10, 4 << 20
)

// idler gives memory back to the system when a server becomes idle: after its
// start, and after every burst. The collector alone would keep the garbage, and
// the stacks that requests grew, until the heap has grown as large again: on an
// idle server for two minutes, and much of it for longer.
type idler struct {
	allocated func() uint64 // bytes, since the process began
	give      func()

	before uint64 // at the last look
	given  uint64 // when memory was given back
}

func newIdler() *idler { return &idler{allocated: allocated, give: debug.FreeOSMemory} }

func allocated() uint64 {
	sample := []runtimemetrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	runtimemetrics.Read(sample)
	return sample[0].Value.Uint64()
}

func (i *idler) run(ctx context.Context) {
	for lifecycle.Pause(ctx, idleEvery) == nil {
		i.look()
	}
}

func (i *idler) look() {
	now := i.allocated()
	if now-i.before <= quiet && now-i.given >= worth {
		i.give()
		i.given = now
	}
	i.before = now
}

package stream

import (
	"context"
	"fmt"
	"sync"

	"github.com/portico-run/portico/internal/errs"
)

var errStopping = errs.New(errs.Unavailable, "The server is shutting down.").Do("Connect again and resume after the last event.").AsPlanned()

// open knows the streams that are open, so that they can be ended.
type open struct {
	mu      sync.Mutex
	closing bool
	next    int
	ends    map[int]context.CancelFunc
	empty   chan struct{} // closed when closing and no stream is left
}

func newOpen() *open {
	return &open{ends: map[int]context.CancelFunc{}, empty: make(chan struct{})}
}

// enter returns the context of a new stream, which close ends. Leave must be
// called when the stream is over.
func (o *open) enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return nil, nil, errStopping
	}
	ctx, end := context.WithCancel(ctx)
	id := o.next
	o.next++
	o.ends[id] = end
	return ctx, func() {
		end()
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.ends, id)
		if o.closing && len(o.ends) == 0 {
			close(o.empty)
		}
	}, nil
}

// count is how many streams there are.
func (o *open) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.ends)
}

// close ends every stream and waits until all have left, or ctx ends.
func (o *open) close(ctx context.Context) error {
	o.mu.Lock()
	if !o.closing {
		o.closing = true
		for _, end := range o.ends {
			end()
		}
		if len(o.ends) == 0 {
			close(o.empty)
		}
	}
	o.mu.Unlock()
	select {
	case <-o.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end the event streams: %w", ctx.Err())
	}
}

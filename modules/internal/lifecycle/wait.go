package lifecycle

import (
	"context"
	"sync"
)

// Wait returns when the work is done, or with ctx's error when that ends
// first. The work goes on then.
func Wait(ctx context.Context, work *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

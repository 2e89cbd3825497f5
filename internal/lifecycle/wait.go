package lifecycle

import (
	"context"
	"sync"
	"time"
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

// Pause returns after a time, or with ctx's error when that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

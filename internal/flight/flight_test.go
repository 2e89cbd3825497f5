package flight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/portico-run/portico/internal/flight"
)

func TestCallersShareOneExecution(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		started, release := 0, make(chan struct{})
		results := make(chan int, 10)
		for range 10 {
			go func() {
				n, err := g.Do(t.Context(), "k", func(context.Context) (int, error) {
					started++
					<-release
					return 7, nil
				})
				if err != nil {
					n = -1
				}
				results <- n
			}()
		}
		synctest.Wait()
		close(release)
		for range 10 {
			if n := <-results; n != 7 {
				t.Errorf("got %d", n)
			}
		}
		if started != 1 {
			t.Errorf("%d executions", started)
		}
		if n, err := g.Do(t.Context(), "k", func(context.Context) (int, error) { return 8, nil }); n != 8 || err != nil {
			t.Errorf("later: %d, %v", n, err)
		}
	})
}

func TestACallerThatLeavesDoesNotFailTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		release := make(chan struct{})
		work := func(ctx context.Context) (int, error) {
			select {
			case <-release:
				return 7, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		first, leave := context.WithCancel(t.Context())
		left, stayed := make(chan error, 1), make(chan error, 1)
		go func() { _, err := g.Do(first, "k", work); left <- err }()
		synctest.Wait()
		go func() { _, err := g.Do(t.Context(), "k", work); stayed <- err }()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who left: %v", err)
		}
		close(release)
		if err := <-stayed; err != nil {
			t.Errorf("who stayed: %v", err)
		}
	})
}

// Nobody waits: the work ends, and who comes next has it done anew.
func TestWorkEndsWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[string, int]
		ended := make(chan error, 1)
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			_, _ = g.Do(ctx, "k", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				ended <- ctx.Err()
				<-t.Context().Done() // slow to end
				return 0, ctx.Err()
			})
		}()
		synctest.Wait()
		leave()
		if err := <-ended; err == nil {
			t.Error("the work goes on")
		}
		if n, err := g.Do(t.Context(), "k", func(context.Context) (int, error) { return 8, nil }); n != 8 || err != nil {
			t.Errorf("later: %d, %v", n, err)
		}
	})
}

func TestAPanicIsAnError(t *testing.T) {
	t.Parallel()
	var g flight.Group[string, int]
	if _, err := g.Do(t.Context(), "k", func(context.Context) (int, error) { panic("boom") }); err == nil {
		t.Error("no error")
	}
}

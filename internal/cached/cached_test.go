package cached_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portico-run/portico/internal/cached"
)

// source is what facts are read from.
type source struct {
	value, reads atomic.Int64
}

func (s *source) read(context.Context) (int64, error) {
	s.reads.Add(1)
	return s.value.Load(), nil
}

func get[K comparable](t *testing.T, c *cached.Cache[K, int64], key K, read func(context.Context) (int64, error)) int64 {
	t.Helper()
	v, err := c.Get(t.Context(), key, read)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func all[K any](K, int64) bool { return true }

func TestAFactIsReadOnceInItsAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cached.New[string, int64](cached.Settings{Max: 10, Age: time.Second})
		var s source
		for range 3 {
			get(t, c, "a", s.read)
		}
		get(t, c, "b", s.read)
		if n := s.reads.Load(); n != 2 {
			t.Errorf("%d reads of two facts", n)
		}
		s.value.Store(1)
		<-time.After(time.Second - time.Nanosecond)
		if v := get(t, c, "a", s.read); v != 0 {
			t.Error("it was forgotten early")
		}
		<-time.After(time.Nanosecond)
		if v := get(t, c, "a", s.read); v != 1 {
			t.Error("it is older than its age")
		}
	})
}

// The age counts from before the read: what the database said then may have
// changed while its answer was on the way.
func TestASlowReadIsOldWhenItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cached.New[string, int64](cached.Settings{Max: 10, Age: time.Second})
		var s source
		slow := func(ctx context.Context) (int64, error) {
			v, err := s.read(ctx)
			<-time.After(5 * time.Second)
			return v, err
		}
		go func() { _, _ = c.Get(t.Context(), "a", slow) }()
		synctest.Wait()
		<-time.After(2 * time.Second)
		s.value.Store(1)
		if v := get(t, c, "a", s.read); v != 1 {
			t.Error("a read that began long ago is shared")
		}
		<-time.After(4 * time.Second) // the slow one has ended
		if v := get(t, c, "a", s.read); v != 1 {
			t.Error("a read that began long ago is kept")
		}
	})
}

func TestFailuresAreNotKept(t *testing.T) {
	t.Parallel()
	c := cached.New[string, int64](cached.Settings{Max: 10, Age: time.Hour})
	down := errors.New("down")
	if _, err := c.Get(t.Context(), "a", func(context.Context) (int64, error) { return 0, down }); !errors.Is(err, down) {
		t.Error(err)
	}
	var s source
	s.value.Store(7)
	if v := get(t, c, "a", s.read); v != 7 {
		t.Error(v)
	}
}

func TestWithoutAnAgeNothingIsKept(t *testing.T) {
	t.Parallel()
	c := cached.New[string, int64](cached.Settings{Max: 10})
	var s source
	get(t, c, "a", s.read)
	get(t, c, "a", s.read)
	if n := s.reads.Load(); n != 2 {
		t.Errorf("%d reads", n)
	}
}

func TestTheOneThatNobodyAsksForGoes(t *testing.T) {
	t.Parallel()
	c := cached.New[int, int64](cached.Settings{Max: 3, Age: time.Hour})
	var s source
	for _, key := range []int{1, 2, 3, 1, 4, 1} { // 2 goes
		get(t, c, key, s.read)
	}
	if n := s.reads.Load(); n != 4 {
		t.Errorf("%d reads", n)
	}
	for _, key := range []int{1, 3, 4} {
		get(t, c, key, s.read)
	}
	if n := s.reads.Load(); n != 4 {
		t.Errorf("one that was asked for is gone: %d reads", n)
	}
	get(t, c, 2, s.read)
	if n := s.reads.Load(); n != 5 {
		t.Error("there are more than there may be")
	}
}

// A cache that sees one key after the other holds those of its age only.
func TestFactsThatAreTooOldAreNotHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cached.New[int, int64](cached.Settings{Max: 1000, Age: time.Second})
		var s source
		for key := range 500 {
			get(t, c, key, s.read)
			<-time.After(100 * time.Millisecond)
			get(t, c, 0, s.read) // that one is asked for all the time
			if n := c.Len(); n > 12 {
				t.Fatalf("%d are held after %d", n, key)
			}
		}
		if n := s.reads.Load(); n > 500+500/10+1 {
			t.Errorf("%d reads: one that is not too old was forgotten", n)
		}
	})
}

func TestDropForgetsWhatHasChanged(t *testing.T) {
	t.Parallel()
	c := cached.New[string, int64](cached.Settings{Max: 10, Age: time.Hour})
	var s source
	get(t, c, "a", s.read)
	get(t, c, "b", s.read)
	s.value.Store(1)
	c.Drop(func(key string, _ int64) bool { return key == "a" })
	if a, b := get(t, c, "a", s.read), get(t, c, "b", s.read); a != 1 || b != 0 {
		t.Error(a, b)
	}
}

// Somebody reads, something changes, and only then does the reader get to store
// what it read: nobody who comes after the change may see that.
func TestWhatWasReadBeforeAChangeIsNeitherKeptNorShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cached.New[string, int64](cached.Settings{Max: 10, Age: time.Hour})
		var s source
		release := make(chan struct{})
		go func() {
			_, _ = c.Get(t.Context(), "a", func(ctx context.Context) (int64, error) {
				v, err := s.read(ctx)
				<-release
				return v, err
			})
		}()
		synctest.Wait()
		s.value.Store(1)
		c.Drop(all)
		if v := get(t, c, "a", s.read); v != 1 {
			t.Error("a read from before the change is shared")
		}
		close(release)
		synctest.Wait()
		if v := get(t, c, "a", s.read); v != 1 {
			t.Error("a read from before the change is kept")
		}
	})
}

func TestThoseWhoMissAtOnceShareARead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cached.New[string, int64](cached.Settings{Max: 10, Age: time.Hour})
		var s source
		release := make(chan struct{})
		for range 20 {
			go func() {
				_, _ = c.Get(t.Context(), "a", func(ctx context.Context) (int64, error) {
					<-release
					return s.read(ctx)
				})
			}()
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		if n := s.reads.Load(); n != 1 {
			t.Errorf("%d reads", n)
		}
	})
}

// Whoever asks after a change has been announced sees it, whatever others do
// meanwhile.
func TestNobodySeesAFactFromBeforeAChange(t *testing.T) {
	t.Parallel()
	c := cached.New[int, int64](cached.Settings{Max: 5, Age: time.Hour})
	var s source
	var announced atomic.Int64
	var wg sync.WaitGroup
	ended := make(chan struct{})
	for key := range 8 {
		wg.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				least := announced.Load()
				if v, err := c.Get(t.Context(), key%6, s.read); err != nil || v < least {
					t.Errorf("%d after %d was announced: %v", v, least, err)
					return
				}
			}
		})
	}
	for n := range int64(500) {
		s.value.Store(n)
		c.Drop(all)
		announced.Store(n)
	}
	close(ended)
	wg.Wait()
}

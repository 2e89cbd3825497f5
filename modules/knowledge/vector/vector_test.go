package vector_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/knowledge/vector"
)

func unit(t *testing.T, numbers ...float32) []float32 {
	t.Helper()
	v, err := vector.Unit(numbers)
	require.NoError(t, err)
	return v
}

func random(t *testing.T, r *rand.Rand, dimensions int) []float32 {
	t.Helper()
	v := make([]float32, dimensions)
	for i := range v {
		v[i] = r.Float32() - .5
	}
	return unit(t, v...)
}

func TestTheNearestVectorsAreFoundExactly(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	entries := make([]vector.Entry, 10_000) // enough for several workers
	for i := range entries {
		entries[i] = vector.Entry{PK: int64(i + 1), Vector: random(t, r, 13)} // not a multiple of the step
		if i%3 == 0 {
			entries[i].Framework = "UIKit"
		}
	}
	set := vector.NewSet(entries)
	query := random(t, r, 13)
	for _, framework := range []string{"", "UIKit"} {
		var want []vector.Match
		for _, e := range entries {
			var sum float64
			for i := range query {
				sum += float64(e.Vector[i]) * float64(query[i])
			}
			if framework == "" || e.Framework == framework {
				want = append(want, vector.Match{PK: e.PK, Similarity: sum})
			}
		}
		slices.SortFunc(want, func(a, b vector.Match) int {
			if a.Similarity > b.Similarity {
				return -1
			}
			return 1
		})
		got := set.Nearest(query, framework, 20)
		require.Len(t, got, 20)
		for i, m := range got {
			require.Equal(t, want[i].PK, m.PK)
			require.InDelta(t, want[i].Similarity, m.Similarity, 1e-5)
		}
	}
	require.Empty(t, set.Nearest(query, "AppKit", 20))
	require.Empty(t, vector.NewSet(nil).Nearest(query, "", 20))
}

func TestVectorsAreStoredAsTheyAre(t *testing.T) {
	t.Parallel()
	v := unit(t, 1, -2, 3.5)
	got := make([]float32, 3)
	require.NoError(t, vector.Decode(vector.Encode(v), got))
	require.Equal(t, v, got)
	require.Error(t, vector.Decode(vector.Encode(v), make([]float32, 4)))
	_, err := vector.Unit([]float32{0, 0})
	require.Error(t, err, "it has no direction")
}

// rows is a collection whose readings are counted.
type rows struct {
	mu     sync.Mutex
	pks    []int64
	loaded int
	wait   chan struct{}
}

func (r *rows) Rows(context.Context, vector.Key) ([]int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.pks), nil
}

func (r *rows) Load(_ context.Context, _ vector.Key, pks []int64) ([]vector.Entry, error) {
	if r.wait != nil {
		<-r.wait
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loaded += len(pks)
	entries := make([]vector.Entry, len(pks))
	for i, pk := range pks {
		entries[i] = vector.Entry{PK: pk, Vector: []float32{1, 0}}
	}
	return entries, nil
}

func key(collection int64) vector.Key {
	return vector.Key{Collection: collection, Model: "m/2", Dimensions: 2}
}

func TestOnlyWhatIsNewIsRead(t *testing.T) {
	t.Parallel()
	r := &rows{pks: []int64{1, 2, 3}}
	c := vector.NewCache(r, 1<<20)
	get := func(version int64) *vector.Set {
		s, err := c.Get(t.Context(), key(1), version)
		require.NoError(t, err)
		return s
	}
	require.Equal(t, 3, get(1).Len())
	require.Equal(t, 3, get(1).Len())
	require.Equal(t, 3, r.loaded, "the same version is in memory")
	r.pks = []int64{2, 3, 4, 5}
	require.Equal(t, 4, get(2).Len())
	require.Equal(t, 5, r.loaded, "two are new")
	r.pks = []int64{5}
	require.Equal(t, 1, get(3).Len())
	require.Equal(t, 6, r.loaded, "most are gone: what remains is read anew, so that their memory is free")
	require.Equal(t, vector.SizeOf(1, 2), c.Size())
}

func TestSetsGoWhenTheMemoryIsFull(t *testing.T) {
	t.Parallel()
	r := &rows{pks: []int64{1, 2, 3}}
	c := vector.NewCache(r, 2*vector.SizeOf(3, 2))
	for collection := range int64(4) {
		_, err := c.Get(t.Context(), key(collection), 1)
		require.NoError(t, err)
		require.LessOrEqual(t, c.Size(), 2*vector.SizeOf(3, 2))
	}
	require.Equal(t, 12, r.loaded)
	_, err := c.Get(t.Context(), key(3), 1)
	require.NoError(t, err)
	require.Equal(t, 12, r.loaded, "the last one is there")
	_, err = c.Get(t.Context(), key(0), 1)
	require.NoError(t, err)
	require.Equal(t, 15, r.loaded, "the first one went")
	r.pks = make([]int64, 7)
	_, err = c.Get(t.Context(), key(9), 1)
	require.ErrorIs(t, err, vector.ErrTooLarge)
	require.Equal(t, 15, r.loaded, "the size is known before anything is read")
}

func TestThoseWhoWantTheSameShareTheReading(t *testing.T) {
	t.Parallel()
	r := &rows{pks: []int64{1, 2, 3}, wait: make(chan struct{})}
	c := vector.NewCache(r, 1<<20)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			s, err := c.Get(t.Context(), key(1), 1)
			if err != nil || s.Len() != 3 {
				t.Error(s, err)
			}
		})
	}
	close(r.wait)
	wg.Wait()
	require.Equal(t, 3, r.loaded)
}

// Package vector finds the nearest of many vectors by comparing all of them, in
// memory. The answer is exact, and what it costs is known: a multiplication for
// each number.
package vector

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
)

// Entry is a vector with the row that it is of.
type Entry struct {
	PK        int64
	Framework string
	Vector    []float32 // of length 1
}

// Set is the vectors of one collection, in the order of their rows. It is not
// changed once it is made.
type Set struct {
	entries []Entry
	size    int64
}

// overhead is what an entry takes beside its numbers, in bytes.
const overhead = 64

// SizeOf is how much memory so many vectors take, in bytes.
func SizeOf(count int64, dimensions int) int64 { return count * (int64(dimensions)*4 + overhead) }

// NewSet makes a set of entries, which must have the same number of dimensions.
func NewSet(entries []Entry) *Set {
	s := &Set{entries: entries}
	if len(entries) > 0 {
		s.size = SizeOf(int64(len(entries)), len(entries[0].Vector))
	}
	return s
}

// Len is how many vectors there are.
func (s *Set) Len() int { return len(s.entries) }

// Match is a row and how near its vector is: the cosine of the angle.
type Match struct {
	PK         int64
	Similarity float64
}

// Nearest returns the n rows whose vectors are nearest, the nearest first. An
// empty framework is any. The query has length 1.
func (s *Set) Nearest(query []float32, framework string, n int) []Match {
	workers := min(runtime.GOMAXPROCS(0), maxWorkers, 1+len(s.entries)/leastShare)
	parts := make([][]Match, workers)
	share := (len(s.entries) + workers - 1) / workers
	var wg sync.WaitGroup
	for w := range workers {
		own := s.entries[min(w*share, len(s.entries)):min((w+1)*share, len(s.entries))]
		wg.Go(func() { parts[w] = nearest(own, query, framework, n) })
	}
	wg.Wait()
	all := slices.Concat(parts...)
	slices.SortFunc(all, better)
	return all[:min(n, len(all))]
}

const (
	// maxWorkers is how many processors one search uses at most, leastShare how
	// many vectors are worth one.
	maxWorkers = 4
	leastShare = 4096
)

// better orders matches; equals come in the order of their rows.
func better(a, b Match) int {
	return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(a.PK, b.PK))
}

// nearest keeps the n best in a sorted list: n is small, and few vectors enter.
func nearest(entries []Entry, query []float32, framework string, n int) []Match {
	best := make([]Match, 0, n+1)
	for i := range entries {
		e := &entries[i]
		if framework != "" && e.Framework != framework || len(e.Vector) != len(query) {
			continue
		}
		m := Match{e.PK, float64(dot(e.Vector, query))}
		if len(best) == n && better(m, best[n-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, m, better)
		best = slices.Insert(best, at, m)
		best = best[:min(n, len(best))]
	}
	return best
}

// dot multiplies in eight independent sums, which a processor works on at once.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	i := 0
	for ; i+8 <= len(a); i += 8 {
		x, y := a[i:i+8:i+8], b[i:i+8:i+8]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
		s4 += x[4] * y[4]
		s5 += x[5] * y[5]
		s6 += x[6] * y[6]
		s7 += x[7] * y[7]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7
}

// Unit gives a vector the length 1. One of length 0, or with what is no number,
// is an error.
func Unit(v []float32) ([]float32, error) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, fmt.Errorf("a vector of %d numbers has no direction", len(v))
	}
	unit := make([]float32, len(v))
	scale := 1 / math.Sqrt(sum)
	for i, x := range v {
		unit[i] = float32(float64(x) * scale)
	}
	return unit, nil
}

// Encode writes a vector as it is stored: float32, little endian.
func Encode(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// Decode reads what Encode wrote, of so many numbers, into a slice.
func Decode(b []byte, into []float32) error {
	if len(b) != 4*len(into) {
		return fmt.Errorf("a stored vector has %d bytes, not %d", len(b), 4*len(into))
	}
	for i := range into {
		into[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return nil
}

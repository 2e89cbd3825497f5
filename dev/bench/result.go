package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// result is one row of the table. A target of "" or "-" is none.
type result struct {
	what, measured, baseline, ratio, target string
	holds                                   bool
	noise                                   float64 // of the baseline, as a share of it
}

// series is what one side of a comparison reached, by round.
type series []float64

func (s series) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// spread is half of the range, as a share of the median.
func (s series) spread() float64 {
	m := s.median()
	if m == 0 {
		return 0
	}
	return (slices.Max(s) - slices.Min(s)) / 2 / m
}

func (s series) rate() string { return fmt.Sprintf("%.0f/s ±%.0f %%", s.median(), 100*s.spread()) }

func (s series) milliseconds() string {
	return fmt.Sprintf("%.2f ms ±%.0f %%", s.median(), 100*s.spread())
}

// over is the ratio of two sides, by round.
func (s series) over(other series) series {
	ratios := make(series, len(s))
	for n := range s {
		ratios[n] = s[n] / other[n]
	}
	return ratios
}

// sideFunc measures one side of a comparison for so long.
type sideFunc func(ctx context.Context, d time.Duration) (float64, error)

// takeTurns measures the sides one after the other in each round, so that all
// see the same machine. A first round, which warms up, is not counted.
func takeTurns(ctx context.Context, o options, sides ...sideFunc) ([]series, error) {
	all := make([]series, len(sides))
	for round := range o.rounds + 1 {
		for n := range sides {
			// Whoever is first in one round is last in the next.
			if round%2 == 1 {
				n = len(sides) - 1 - n
			}
			v, err := sides[n](ctx, o.time)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				all[n] = append(all[n], v)
			}
		}
	}
	return all, nil
}

// compared is the row of a rate that must be at least so much of a baseline's;
// a target of 0 is none.
func compared(what string, ours, theirs series, target float64) result {
	ratio := ours.over(theirs)
	r := result{
		what: what, measured: ours.rate(), baseline: theirs.rate(), holds: ratio.median() >= target, noise: theirs.spread(),
		ratio: fmt.Sprintf("%.2f (%.2f–%.2f)", ratio.median(), slices.Min(ratio), slices.Max(ratio)),
	}
	if target > 0 {
		r.target = fmt.Sprintf("≥ %g", target)
	}
	return r
}

// widest is the largest noise among the baselines.
func widest(results []result) (noise float64) {
	for _, r := range results {
		noise = max(noise, r.noise)
	}
	return noise
}

// bounded is the row of a number that must not be over a bound.
func bounded(what string, measured, bound float64, format string) result {
	return result{what: what, measured: fmt.Sprintf(format, measured), target: "≤ " + fmt.Sprintf(format, bound), holds: measured <= bound}
}

const mebibyte = 1 << 20

// percentile returns the value below which p of the durations are.
func percentile(durations []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func ms(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}

func times(a, b time.Duration) string { return fmt.Sprintf("%.2f", float64(a)/float64(b)) }

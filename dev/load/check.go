package main

import (
	"fmt"
	"math"
	"time"
)

// check is one thing that must hold.
type check struct {
	what, measured, target string
	holds                  bool
}

func most(what string, measured, bound float64, format string) check {
	return check{what, fmt.Sprintf(format, measured), "≤ " + fmt.Sprintf(format, bound), measured <= bound}
}

// tail is how much longer than its median a call may take in a hundred.
const tail = 5

// checkSteady holds a phase that the machine can bear to its promises.
func checkSteady(p phase) []check {
	s := p.summary
	checks := []check{
		{"steady: jobs that failed", count(s.failed, s.failures), "0", s.failed == 0},
		most("steady: jobs that were refused", float64(s.refused), 0, "%.0f"),
		most("steady: jobs that were due and not begun", float64(s.skipped), 0, "%.0f"),
	}
	for _, k := range kinds() {
		c := most("steady: p99 of a call "+string(k)+", in medians", float64(s.p99[k])/float64(max(s.p50[k], 1)), tail, "%.1f")
		c.measured += fmt.Sprintf(" (%s of %s)", short(s.p99[k]), short(s.p50[k]))
		checks = append(checks, c)
	}
	return append(checks,
		held{"memory of the server", "%.1f MiB", func(u observed) float64 { return float64(u.RSS) / (1 << 20) }, 0.05, 1}.flat(p.usage),
		held{"goroutines", "%.0f", func(u observed) float64 { return float64(u.Goroutines) }, 0.10, 20}.flat(p.usage),
		held{"descriptors", "%.0f", func(u observed) float64 { return float64(u.Descriptors) }, 0.10, 20}.flat(p.usage),
	)
}

// held is something that a server holds. What grows by less than the share, or
// by less than the slack, is flat.
type held struct {
	name, format string
	of           func(observed) float64
	share, slack float64
}

// flat compares the last tenth of a phase with its third one: minutes, where it
// takes ten.
func (h held) flat(usage []observed) check {
	third, last := mean(tenth(usage, 2), h.of), mean(tenth(usage, 9), h.of)
	bound := max(third*(1+h.share), third+h.slack)
	return check{
		what: "steady: " + h.name + ", last tenth against the third", measured: fmt.Sprintf(h.format+" against "+h.format, last, third),
		target: "≤ " + fmt.Sprintf(h.format, bound), holds: last <= bound && third > 0,
	}
}

func tenth(usage []observed, n int) []observed {
	return usage[n*len(usage)/10 : max((n+1)*len(usage)/10, min(n*len(usage)/10+1, len(usage)))]
}

func mean(usage []observed, of func(observed) float64) (m float64) {
	for _, u := range usage {
		m += of(u) / float64(len(usage))
	}
	return m
}

// checkOverload holds a phase that no machine can bear to its promises: what is
// not refused is done.
func checkOverload(p phase) []check {
	s := p.summary
	return []check{
		{"overload: jobs that were begun and failed, or refused without Retry-After", count(s.failed, s.failures), "0", s.failed == 0},
		{"overload: jobs done, refused with Retry-After, not begun here", fmt.Sprintf("%d, %d, %d", s.done, s.refused, s.skipped), "some are done", s.done > 0},
	}
}

// What is normal is judged over windows of so many seconds: one second has too
// few calls.
const window = 5

// A call that is normal takes at most so many steady medians, or what the steady
// phase itself took in its worst windows.
const (
	normal = 2
	worst  = 0.95
)

// median is that of the seconds' medians from one second on, 0 where a window
// had no calls, and whether no job was refused.
func median(seconds []second, from int) (p50 time.Duration, open bool) {
	var all []time.Duration
	open = true
	for _, s := range seconds[from:min(from+window, len(seconds))] {
		open = open && s.refused == 0
		if s.p50 > 0 {
			all = append(all, s.p50)
		}
	}
	return percentile(all, 0.5), open
}

// usualCall is the longest that a call takes in a window that is normal.
func usualCall(steady phase) time.Duration {
	var windows []time.Duration
	for n := range steady.seconds {
		if p50, _ := median(steady.seconds, n); p50 > 0 {
			windows = append(windows, p50)
		}
	}
	return max(normal*steady.summary.p50[direct], percentile(windows, worst))
}

// recovered is when the first window begins that is normal; the whole time where
// none is.
func recovered(seconds []second, usual time.Duration) time.Duration {
	for n := range max(len(seconds)-window, 0) {
		if p50, open := median(seconds, n); open && p50 > 0 && p50 <= usual {
			return time.Duration(n) * time.Second
		}
	}
	return time.Duration(len(seconds)) * time.Second
}

const recovery = 10 * time.Second

func checkRecovery(p, steady phase) []check {
	usual := usualCall(steady)
	return []check{
		most("recovery: until no job is refused and the median of a call is at most "+short(usual), recovered(p.seconds, usual).Seconds(), recovery.Seconds(), "%.0f s"),
		{"recovery: jobs that failed", count(p.summary.failed, p.summary.failures), "0", p.summary.failed == 0},
	}
}

func count(n int, examples []string) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d, such as %.200s", n, examples[0])
}

func short(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", math.Round(float64(d.Microseconds())/100)/10)
}

package main

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// kind is where a call was made.
type kind string

const (
	direct    kind = "in runs, over HTTP"
	inProgram kind = "in programs"
)

// kinds are those that are timed.
func kinds() []kind { return []kind{direct, inProgram} }

// timed is a call that was answered.
type timed struct {
	at   time.Duration // since the recorder began
	took time.Duration
	kind kind
}

// ended is a job that ended.
type ended struct {
	at          time.Duration
	ok, refused bool
}

// recorder keeps what happened in one phase. What was begun in it may end later:
// then it counts as done, refused or failed, and its time does not.
type recorder struct {
	begin  time.Time
	length time.Duration // of the phase; set when no more is begun

	mu       sync.Mutex
	calls    []timed
	jobs     []ended
	done     map[string]int // by the job's name
	failures []string
	failed   int
	skipped  int // jobs that were due while as many as may be were under way
}

func newRecorder() *recorder { return &recorder{begin: time.Now(), done: map[string]int{}} }

func (r *recorder) call(k kind, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, timed{time.Since(r.begin), took, k})
}

// maxFailures is how many failures are shown.
const maxFailures = 5

func (r *recorder) end(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused := errors.Is(err, errRefused)
	r.jobs = append(r.jobs, ended{time.Since(r.begin), err == nil, refused})
	switch {
	case err == nil:
		r.done[name]++
	case !refused:
		r.failed++
		if len(r.failures) < maxFailures {
			r.failures = append(r.failures, name+": "+err.Error())
		}
	}
}

// close ends the phase.
func (r *recorder) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.length = time.Since(r.begin)
}

func (r *recorder) skip() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped++
}

// summary is what a phase came to.
type summary struct {
	done, refused, failed, skipped int
	perSecond                      float64
	p50, p99                       map[kind]time.Duration
	failures                       []string
}

func (r *recorder) summary() summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := summary{failed: r.failed, skipped: r.skipped, failures: slices.Clone(r.failures), p50: map[kind]time.Duration{}, p99: map[kind]time.Duration{}}
	for _, n := range r.done {
		s.done += n
	}
	for _, j := range r.jobs {
		if j.refused {
			s.refused++
		}
	}
	within := 0
	for _, j := range r.jobs {
		if j.ok && j.at <= r.length {
			within++
		}
	}
	s.perSecond = float64(within) / r.length.Seconds()
	for _, k := range kinds() {
		s.p50[k], s.p99[k] = r.percentile(k, 0.5), r.percentile(k, 0.99)
	}
	return s
}

// percentile is the time below which p of the calls were answered; the caller
// holds the lock.
func (r *recorder) percentile(k kind, p float64) time.Duration {
	var took []time.Duration
	for _, c := range r.calls {
		if c.kind == k && c.at <= r.length {
			took = append(took, c.took)
		}
	}
	return percentile(took, p)
}

func percentile(took []time.Duration, p float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(len(took)-1, int(p*float64(len(took))))]
}

// second is what happened in one second of a phase.
type second struct {
	done, refused int
	p50, p99      time.Duration // of calls over HTTP
}

// seconds is the phase by the second.
func (r *recorder) seconds() []second {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]second, int(r.length.Seconds()))
	took := make([][]time.Duration, len(all))
	for _, j := range r.jobs {
		switch n := int(j.at.Seconds()); {
		case n >= len(all):
		case j.refused:
			all[n].refused++
		case j.ok:
			all[n].done++
		}
	}
	for _, c := range r.calls {
		if n := int(c.at.Seconds()); c.kind == direct && n < len(all) {
			took[n] = append(took[n], c.took)
		}
	}
	for n := range all {
		all[n].p50, all[n].p99 = percentile(took[n], 0.5), percentile(took[n], 0.99)
	}
	return all
}

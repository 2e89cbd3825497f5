package execution

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox"
)

// Plans says what the plans of users allow.
type Plans interface {
	// LimitsOf returns the limits of the plan that a user has now.
	LimitsOf(ctx context.Context, uid string) (PlanLimits, error)
}

// PlanLimits bound one user besides Settings. What is zero bounds nothing.
type PlanLimits struct {
	// Timeout is the longest time limit of a program: one that asks for more
	// gets this.
	Timeout time.Duration
	// MaxFile is the largest file that comes in or is kept, in bytes.
	MaxFile int64
	// AtOnce is how many programs this process holds for the user: those that
	// run, wait for their turn or are paused.
	AtOnce int
	// PerMinute is how many programs the user may start: so many at once, and
	// from then on so many in a minute. Continuations start none.
	PerMinute int
}

// ErrPlan is a program over the limits of its user's plan.
var ErrPlan = errs.New(errs.RateLimited, "Your plan allows no more programs now.")

// admission begins programs within the limits of their users' plans.
type admission struct {
	inner Sandbox
	plans Plans
	now   func() time.Time

	mu    sync.Mutex
	users map[string]*usage // that are bounded
}

// usage is what a user holds and has started.
type usage struct {
	beginning int               // programs that the sandbox has not taken yet
	begun     []<-chan struct{} // of programs: closed when they have ended
	rate      *rate.Limiter     // nil without a limit
	perMinute int               // of rate
	seen      time.Time
}

// Users who have nothing running and started nothing for a while are forgotten,
// once there are many.
const (
	manyUsers   = 10_000
	forgetAfter = 2 * time.Minute
)

// Admit begins programs on a sandbox within the limits of their users' plans.
func Admit(s Sandbox, plans Plans, now func() time.Time) Sandbox {
	return &admission{inner: s, plans: plans, now: now, users: map[string]*usage{}}
}

// Languages implements Sandbox.
func (a *admission) Languages() []sandbox.Language { return a.inner.Languages() }

// Begin implements Sandbox.
func (a *admission) Begin(ctx context.Context, job sandbox.Job) (sandbox.Execution, error) {
	limits, err := a.plans.LimitsOf(ctx, job.Owner)
	if err != nil {
		return nil, err
	}
	if limits.Timeout > 0 {
		job.Timeout = min(job.Timeout, limits.Timeout)
	}
	if limits.AtOnce == 0 && limits.PerMinute == 0 {
		return a.inner.Begin(ctx, job)
	}
	if err := a.enter(job.Owner, limits); err != nil {
		return nil, err
	}
	x, err := a.inner.Begin(ctx, job)
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.users[job.Owner]
	u.beginning--
	if err == nil {
		u.begun = append(u.begun, x.Done())
	}
	return x, err
}

// enter counts a program in, or refuses it.
func (a *admission) enter(uid string, limits PlanLimits) error {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(now)
	u := a.users[uid]
	if u == nil {
		u = &usage{}
		a.users[uid] = u
	}
	u.seen = now
	if limits.AtOnce > 0 && u.held() >= limits.AtOnce {
		return ErrPlan.Do(fmt.Sprintf("It holds %d at once. Wait for one to end, or continue one that is paused, and send the program again after Retry-After.", limits.AtOnce)).After(time.Second)
	}
	if wait := u.wait(now, limits.PerMinute); wait > 0 {
		return ErrPlan.Do(fmt.Sprintf("It starts %d in a minute. Send the program again after Retry-After.", limits.PerMinute)).After(wait)
	}
	u.beginning++
	return nil
}

// held is how many programs a user has now.
func (u *usage) held() int {
	alive := u.begun[:0]
	for _, done := range u.begun {
		select {
		case <-done:
		default:
			alive = append(alive, done)
		}
	}
	u.begun = alive
	return u.beginning + len(alive)
}

// wait takes one start of the minute's, or returns how long it takes until
// there is one.
func (u *usage) wait(now time.Time, perMinute int) time.Duration {
	if u.perMinute != perMinute { // the plan is another one, or this is the first program
		u.rate, u.perMinute = nil, perMinute
		if perMinute > 0 {
			u.rate = rate.NewLimiter(rate.Limit(float64(perMinute)/time.Minute.Seconds()), perMinute)
		}
	}
	if u.rate == nil {
		return 0
	}
	r := u.rate.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

func (a *admission) forget(now time.Time) {
	if len(a.users) < manyUsers {
		return
	}
	for uid, u := range a.users {
		if now.Sub(u.seen) > forgetAfter && u.held() == 0 {
			delete(a.users, uid)
		}
	}
}

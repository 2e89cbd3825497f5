package execution

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/run/bound"
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
	// AtOnce is how many programs all processes hold for the user: those that run,
	// wait for their turn or are paused.
	AtOnce int
	// PerMinute is how many programs the user may start: so many at once, and
	// from then on so many in a minute. Continuations start none.
	PerMinute int
}

// ErrPlan is a program over the limits of its user's plan.
var ErrPlan = errs.New(errs.RateLimited, "Your plan allows no more programs now.")

// admission begins programs within the limits of their users' plans.
type admission struct {
	inner   Sandbox
	plans   Plans
	limiter *bound.Limiter
}

// Admit begins programs on a sandbox within the limits of their users' plans.
func Admit(s Sandbox, plans Plans, limiter *bound.Limiter) Sandbox {
	return &admission{inner: s, plans: plans, limiter: limiter}
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
	visit, err := a.enter(ctx, job.Owner, limits)
	if err != nil {
		return nil, err
	}
	x, err := a.inner.Begin(ctx, job)
	if err != nil {
		visit.Leave()
		return nil, err
	}
	admitted := &admitted{Execution: x, left: make(chan struct{})}
	go func() { // ends with the program
		<-x.Done()
		visit.Leave()
		close(admitted.left)
	}()
	return admitted, nil
}

// admitted is over when it counts no longer: whoever was told that their program
// ended may begin the next one.
type admitted struct {
	sandbox.Execution
	left chan struct{}
}

// Done implements sandbox.Execution.
func (a *admitted) Done() <-chan struct{} { return a.left }

// Result implements sandbox.Execution.
func (a *admitted) Result() (sandbox.Result, error) {
	<-a.left
	return a.Execution.Result()
}

// enter counts a program in, or refuses it.
func (a *admission) enter(ctx context.Context, uid string, limits PlanLimits) (*bound.Visit, error) {
	visit, err := a.limiter.Enter(ctx, []bound.Limit{{UID: uid, Name: "plan", Bound: bound.Bound{
		AtOnce: limits.AtOnce, PerSecond: float64(limits.PerMinute) / time.Minute.Seconds(), Burst: limits.PerMinute,
	}}})
	over, is := errors.AsType[*bound.Over](err)
	switch {
	case !is:
		return visit, err
	case over.Rate:
		return nil, ErrPlan.Do(fmt.Sprintf("It starts %d in a minute. Send the program again after Retry-After.", limits.PerMinute)).After(over.After)
	}
	return nil, ErrPlan.Do(fmt.Sprintf("It holds %d at once. Wait for one to end, or continue one that is paused, and send the program again after Retry-After.", limits.AtOnce)).After(time.Second)
}

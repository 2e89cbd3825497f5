package execution_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/run/bound"
	"github.com/portico-run/portico/modules/sandbox"
)

// limits are those of users, by uid.
type limits map[string]execution.PlanLimits

func (l limits) LimitsOf(_ context.Context, uid string) (execution.PlanLimits, error) {
	limit, known := l[uid]
	if !known {
		return limit, errors.New("the plan cannot be read")
	}
	return limit, nil
}

// begun is a job that the test ends.
type begun struct {
	sandbox.Execution

	done chan struct{}
}

func (b begun) Done() <-chan struct{} { return b.done }

// taker takes every job, and notes the last one.
type taker struct {
	last sandbox.Job
	jobs []begun
}

func (k *taker) Begin(_ context.Context, job sandbox.Job) (sandbox.Execution, error) {
	if job.Code == "refuse" {
		return nil, sandbox.ErrUnavailable
	}
	k.last = job
	k.jobs = append(k.jobs, begun{done: make(chan struct{})})
	return k.jobs[len(k.jobs)-1], nil
}

func (*taker) Languages() []sandbox.Language { return sandbox.Languages() }

func TestPlansAdmitPrograms(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000_000, 0)
	inner, plans := &taker{}, limits{"free": {}, "held": {AtOnce: 2}, "rate": {PerMinute: 2}, "timed": {Timeout: time.Second}}
	s := execution.Admit(inner, plans, bound.New(bound.Deps{Now: func() time.Time { return now }}))
	begin := func(uid, code string) error {
		_, err := s.Begin(t.Context(), sandbox.Job{Owner: uid, Code: code, Timeout: time.Minute})
		return err
	}
	require.Len(t, s.Languages(), 4)
	require.ErrorContains(t, begin("nobody", "x"), "cannot be read")
	require.NoError(t, begin("free", "x"))
	require.Equal(t, time.Minute, inner.last.Timeout)
	require.NoError(t, begin("timed", "x"))
	require.Equal(t, time.Second, inner.last.Timeout)

	require.NoError(t, begin("held", "x"))
	first := inner.jobs[len(inner.jobs)-1]
	require.ErrorIs(t, begin("held", "refuse"), sandbox.ErrUnavailable, "what the sandbox refuses is not held")
	require.NoError(t, begin("held", "x"))
	require.ErrorIs(t, begin("held", "x"), execution.ErrPlan)
	close(first.done)
	require.Eventually(t, func() bool { return begin("held", "x") == nil }, 20*time.Second, time.Millisecond)

	require.NoError(t, begin("rate", "x"))
	require.NoError(t, begin("rate", "x"))
	refused, ok := errors.AsType[*errs.Error](begin("rate", "x"))
	require.True(t, ok)
	require.Equal(t, 30*time.Second, refused.RetryAfter)
	now = now.Add(refused.RetryAfter)
	require.NoError(t, begin("rate", "x"))
	plans["rate"] = execution.PlanLimits{PerMinute: 1, AtOnce: 100}
	require.NoError(t, begin("rate", "x"), "another plan begins anew")
	require.ErrorIs(t, begin("rate", "x"), execution.ErrPlan)

	// However many users there were: who holds programs is remembered.
	held := len(inner.jobs)
	for n := range 10_001 {
		uid := fmt.Sprint(n)
		plans[uid] = execution.PlanLimits{PerMinute: 1}
		require.NoError(t, begin(uid, "x"))
	}
	for _, job := range inner.jobs[held:] {
		close(job.done)
	}
	now = now.Add(time.Hour)
	require.NoError(t, begin("0", "x"))
	require.ErrorIs(t, begin("held", "x"), execution.ErrPlan)
	for _, job := range inner.jobs {
		select {
		case <-job.done:
		default:
			close(job.done)
		}
	}
}

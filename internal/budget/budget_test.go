package budget_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/budget"
)

// waits reports whether there is no room for a value.
func waits(ctx context.Context, t *testing.T, bytes int64) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	err := budget.Take(ctx, bytes)
	if err != nil {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	return err != nil
}

func TestLargeValuesWaitForRoom(t *testing.T) {
	t.Parallel()
	b := budget.New(100, 60)
	anna, first := b.Open(t.Context(), "anna")
	again, second := b.Open(t.Context(), "anna")
	ben, third := b.Open(t.Context(), "ben")
	carl, fourth := b.Open(t.Context(), "carl")

	require.False(t, waits(anna, t, 40))
	require.False(t, waits(anna, t, 30), "a later value of the same call takes the place of the first")
	require.True(t, waits(again, t, 30), "over the share of its owner")
	require.False(t, waits(ben, t, 60))
	require.True(t, waits(carl, t, 10), "over the whole")
	first.Release()
	require.False(t, waits(carl, t, 10))
	require.False(t, waits(again, t, 30))
	for _, h := range []*budget.Hold{second, third, fourth} {
		h.Release()
	}
}

func TestValuesThatStayAddUp(t *testing.T) {
	t.Parallel()
	b := budget.New(100, 60)
	anna, first := b.Open(t.Context(), "anna")
	again, second := b.Open(t.Context(), "anna")
	for range 2 {
		require.NoError(t, budget.Keep(anna, 20))
	}
	require.False(t, waits(again, t, 20))
	second.Release()
	again, second = b.Open(t.Context(), "anna")
	require.False(t, waits(anna, t, 15), "it comes to those that stay")
	require.True(t, waits(again, t, 10))
	require.False(t, waits(anna, t, 1_000), "a call never waits for itself")
	first.Release()
	second.Release()
}

func TestHeavyCallsTakeTheShareOfTheirOwner(t *testing.T) {
	t.Parallel()
	b := budget.New(100, 60)
	anna, heavy := b.Open(t.Context(), "anna")
	again, light := b.Open(t.Context(), "anna")
	budget.Heavy(anna)
	require.False(t, waits(anna, t, 1))
	require.True(t, waits(again, t, 1))
	heavy.Release()
	require.False(t, waits(again, t, 1_000), "a value over the share takes all of the share")
	light.Release()
}

func TestNothingIsCountedWithoutABudget(t *testing.T) {
	t.Parallel()
	require.NoError(t, budget.Take(t.Context(), 1<<60))
}

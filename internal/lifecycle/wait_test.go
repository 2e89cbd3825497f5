package lifecycle_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/lifecycle"
)

func TestWait(t *testing.T) {
	t.Parallel()
	var work sync.WaitGroup
	require.NoError(t, lifecycle.Wait(t.Context(), &work))
	release := make(chan struct{})
	work.Go(func() { <-release })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, lifecycle.Wait(ctx, &work), context.Canceled)
	close(release)
	require.NoError(t, lifecycle.Wait(t.Context(), &work))
}

package drain_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/drain"
)

func TestWhatCameBeforeGoesOn(t *testing.T) {
	t.Parallel()
	var door drain.Door
	before := door.Enter(t.Context())
	door.Close()
	after := door.Enter(t.Context())
	require.NoError(t, drain.Admit(context.WithoutCancel(before)))
	require.ErrorIs(t, drain.Admit(context.WithoutCancel(after)), drain.ErrDraining)
}

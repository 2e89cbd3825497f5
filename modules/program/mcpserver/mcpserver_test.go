package mcpserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/program/mcpserver"
)

// A user waits in so many calls and no more, which keeps nobody else; whose call ends
// makes room for another.
func TestAUserWaitsInSoManyCalls(t *testing.T) {
	t.Parallel()
	m := mcpserver.New(mcpserver.Deps{})
	var leave []func()
	for range mcpserver.MaxWaiting {
		end, err := m.Enter("u-anna")
		require.NoError(t, err)
		leave = append(leave, end)
	}
	_, err := m.Enter("u-anna")
	require.Equal(t, errs.RateLimited, errs.CodeOf(err))
	end, err := m.Enter("u-ben")
	require.NoError(t, err)
	end()
	leave[0]()
	again, err := m.Enter("u-anna")
	require.NoError(t, err)
	again()
	for _, end := range leave[1:] {
		end()
	}
}

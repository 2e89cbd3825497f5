package shell_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/erasure"
	"github.com/portico-run/portico/modules/cli/shell"
)

// A refusal changes nothing: a command that had begun, and could not go on, has failed.
func TestWhatHasBegunIsNotRefused(t *testing.T) {
	t.Parallel()
	require.Equal(t, 4, shell.ExitCode(account.ErrLastUser))
	require.Equal(t, 1, shell.ExitCode(fmt.Errorf("erase: %w", erasure.ErrBusy)))
}

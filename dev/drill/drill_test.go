package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/instance"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// What is backed up while a server works is restored whole: a real database, a real
// bucket, a real server.
func TestABackupIsRestored(t *testing.T) {
	testenv.Slow(t, "it builds a server, backs it up and restores it")
	testenv.Need(t, "PORTICO_TEST_POSTGRES_URL", "use make")
	testenv.Sandbox(t, guest.DefaultRoot(nil))
	t.Chdir("../..")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	program, err := instance.Build(ctx, ".", t.TempDir())
	require.NoError(t, err)
	require.NoError(t, with(ctx, t.Output(), t.TempDir(), func(say func(format string, arguments ...any), w world) error {
		return drill(ctx, say, program, w)
	}))
}

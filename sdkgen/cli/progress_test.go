package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out, true, "modules", 2)
	p.step("first item")
	require.Contains(t, out.String(), "modules")
	require.Contains(t, out.String(), "1/2")
	require.NotContains(t, out.String(), "first item", "a bar, not a line per item")
	p.step("second item")
	p.done()
	require.NotContains(t, out.String(), "\n")
}

func TestProgressInALog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out, isTerminal(&out), "modules", 2)
	p.step("first item")
	p.step("second item")
	p.done()
	require.Equal(t, "modules 1/2 first item\nmodules 2/2 second item\n", out.String())
}

func TestIsTerminal(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	require.False(t, isTerminal(file))
	require.NoError(t, file.Close())
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	require.True(t, isTerminal(pty))
	require.NoError(t, pty.Close())
}

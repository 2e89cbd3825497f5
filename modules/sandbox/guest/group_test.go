package guest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// The kernel itself holds the limits of a group, says so, and lets go of it.
func TestGroupsBoundWhatIsInThem(t *testing.T) {
	testenv.Slow(t, "uses up memory")
	t.Parallel()
	g := OpenGroups()
	if g == nil {
		require.NotZero(t, os.Geteuid(), "root can make groups")
		return
	}
	for name, test := range map[string]struct {
		memory, processes int64
		program           string
		killed, refused   bool
	}{
		"memory":    {32 << 20, 64, "head -c 100000000 /dev/zero | tail -c 99999999", true, false},
		"processes": {64 << 20, 4, "for n in 1 2 3 4 5 6; do true & done; wait", false, true},
		"neither":   {64 << 20, 64, "head -c 1000 /dev/zero | tail -c 999", false, false},
	} {
		group, err := g.Take(test.memory, test.processes)
		require.NoError(t, err)
		cmd := exec.Command("sh", "-c", "read -r go; "+test.program)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		feed, err := cmd.StdinPipe()
		require.NoError(t, err)
		var said strings.Builder
		cmd.Stderr = &said
		require.NoError(t, cmd.Start())
		require.NoError(t, group.Add(cmd.Process.Pid))
		for _, folder := range group.folders {
			members, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
			require.NoError(t, err)
			require.NotEmpty(t, members, name)
		}
		require.Error(t, os.Remove(group.folders[0]), "it is in use")
		_, err = feed.Write([]byte("go\n"))
		require.NoError(t, err)
		failed := cmd.Wait()
		require.Equal(t, test.killed, group.Killed(), name)
		require.Equal(t, test.refused, group.Refused(), name)
		require.Equal(t, name != "neither", failed != nil, "%s: %s", name, said.String())
		require.NoError(t, group.Close())
		for _, folder := range group.folders {
			require.NoDirExists(t, folder)
		}
	}
}

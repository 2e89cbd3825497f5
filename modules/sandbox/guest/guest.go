// Package guest is the half of a sandbox that all drivers share: the runtime
// that waits inside for a job and becomes the program, and the host's side of
// the conversation with it.
package guest

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/portico-run/portico/modules/sandbox"
)

//go:embed all:runtime
var runtimeFiles embed.FS

// Where the sandbox sees what the host keeps outside. A driver mounts
// Slot.Run at SocketDir, Slot.Tools at sandbox.ToolsDir and Runtime.Dir at
// RuntimeDir, all of them read-only.
const (
	SocketDir  = "/run/portico"
	RuntimeDir = "/run/portico-python"
	// Entry is the program that a driver starts with Python, isolated (-I).
	Entry = RuntimeDir + "/main.py"
	// ForkEntry is the program that makes such interpreters by forking.
	ForkEntry = RuntimeDir + "/zygote.py"
	// SupervisorEntry is the program that holds one, with its files, where the
	// host cannot look in.
	SupervisorEntry = RuntimeDir + "/supervisor.py"
)

// BaseOptions are the options of bubblewrap that all cells have: namespaces of
// their own, the root and the runtime, and nothing of the host's.
func BaseOptions(root, runtime string) []string {
	options := []string{
		"--unshare-all", "--unshare-user", "--die-with-parent", "--new-session",
		"--hostname", "sandbox", "--uid", "1000", "--gid", "1000", "--clearenv",
		// Each arena of the C library reserves 64 MiB.
		"--setenv", "MALLOC_ARENA_MAX", "2",
		"--ro-bind", root, "/",
		"--proc", "/proc",
		"--dev", "/dev",
		"--size", "65536", "--tmpfs", "/run",
		"--ro-bind", runtime, RuntimeDir,
	}
	for name, value := range Environment() {
		options = append(options, "--setenv", name, value)
	}
	return options
}

// Install writes the runtime below the folder of the slots, under a name that
// differs from that of any other version, and returns its path. It stays there
// for the next server.
func (s *Slots) Install() (string, error) {
	files, err := fs.Sub(runtimeFiles, "runtime")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = fs.WalkDir(files, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("sandbox runtime: %w", err)
	}
	dir := filepath.Join(s.dir, "runtime-"+hex.EncodeToString(sum.Sum(nil))[:16])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := s.install(dir, nil); err != nil {
		return "", fmt.Errorf("sandbox runtime: %w", err)
	}
	return dir, nil
}

// install writes the runtime and, by their paths in it, more files. It is
// atomic: two servers may do it at once, and one may be killed.
func (s *Slots) install(dir string, more map[string][]byte) error {
	files, err := fs.Sub(runtimeFiles, "runtime")
	if err != nil {
		return err
	}
	next, err := os.MkdirTemp(s.dir, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(next)
	if err := os.CopyFS(next, files); err != nil {
		return err
	}
	if err := os.Symlink(sandbox.ToolsDir, filepath.Join(next, filepath.Base(sandbox.ToolsDir))); err != nil {
		return err
	}
	if err := write(next, more); err != nil {
		return err
	}
	err = filepath.WalkDir(next, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || e.Type()&fs.ModeSymlink != 0:
			return err
		case e.IsDir():
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o444)
	})
	if err != nil {
		return err
	}
	err = os.Rename(next, dir)
	if _, exists := os.Stat(dir); exists == nil {
		return nil // another server was faster
	}
	return errors.Join(err)
}

// write puts files below a folder.
func write(dir string, files map[string][]byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for path, content := range files {
		if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(path, content, 0o444); err != nil {
			return err
		}
	}
	return nil
}

// DefaultRoot is where tools/sandbox-root.sh puts the Python root for the user
// this process runs as. The environment says where an ordinary user's data is;
// without that there is no default.
func DefaultRoot(environ map[string]string) string {
	const below = "portico/sandbox-root"
	switch {
	case os.Geteuid() == 0:
		return filepath.Join("/var/lib", below)
	case environ["XDG_DATA_HOME"] != "":
		return filepath.Join(environ["XDG_DATA_HOME"], below)
	case environ["HOME"] != "":
		return filepath.Join(environ["HOME"], ".local/share", below)
	}
	return ""
}

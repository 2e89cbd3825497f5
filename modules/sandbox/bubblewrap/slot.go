package bubblewrap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/modules/sandbox"
)

// maxSlots bounds the interpreters of all servers that share a RunDir.
const maxSlots = 10_000

// slots hands out numbered folders. A slot belongs to whoever holds the lock
// on its lock file; a folder whose lock is free was left by a server that
// crashed. Lock files stay, because removing one that another server is about
// to lock would give the slot to two.
type slots struct {
	dir  string
	root bool
}

// slot is one interpreter's folder and, under a server that runs as root, its
// user: no two interpreters that run at once share one.
type slot struct {
	dir  string // holds tools and run
	id   int    // user and group; -1: those of the server
	lock *os.File
}

// openSlots prepares the folder below parent and clears what is stale in it.
func openSlots(parent string) (*slots, error) {
	s := &slots{
		dir:  filepath.Join(parent, fmt.Sprintf("portico-sandbox-%d", os.Geteuid())),
		root: os.Geteuid() == 0,
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("sandbox folder: %w", err)
	}
	// parent may be writable by anyone: a folder that somebody else made under
	// this name is not ours to use.
	info, err := os.Lstat(s.dir)
	if err != nil {
		return nil, fmt.Errorf("sandbox folder: %w", err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("sandbox folder: %s exists and is not a folder of this user: remove it", s.dir)
	}
	mode := os.FileMode(0o700)
	if s.root {
		mode = 0o711 // each slot lets in its own group only
	}
	if err := os.Chmod(s.dir, mode); err != nil {
		return nil, fmt.Errorf("sandbox folder: %w", err)
	}
	return s, s.clearStale()
}

func (s *slots) clearStale() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("sandbox folder: %w", err)
	}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		lock, err := s.lock(n)
		if err != nil {
			return err
		}
		if lock == nil {
			continue // in use by another server
		}
		err = os.RemoveAll(filepath.Join(s.dir, e.Name()))
		lock.Close()
		if err != nil {
			return fmt.Errorf("remove stale sandbox: %w", err)
		}
	}
	return nil
}

// lock returns nil without an error when somebody else holds slot n.
func (s *slots) lock(n int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, strconv.Itoa(n)+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sandbox slot: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil //nolint:nilnil // somebody else's slot is no error
	}
	return nil, fmt.Errorf("sandbox slot: lock: %w", err)
}

// take makes the first free slot.
func (s *slots) take() (*slot, error) {
	for n := range maxSlots {
		lock, err := s.lock(n)
		if err != nil {
			return nil, err
		}
		if lock == nil {
			continue
		}
		t := &slot{dir: filepath.Join(s.dir, strconv.Itoa(n)), id: -1, lock: lock}
		if s.root {
			t.id = firstUID + n
		}
		if err := t.make(); err != nil {
			return nil, errors.Join(fmt.Errorf("sandbox slot: %w", err), t.release())
		}
		return t, nil
	}
	return nil, errors.New("sandbox slots: all are taken")
}

func (t *slot) make() error {
	if err := os.RemoveAll(t.dir); err != nil {
		return err
	}
	for _, dir := range []string{t.dir, t.tools(), t.run()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	for _, dir := range []string{t.tools(), t.run()} {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	if t.id < 0 {
		return nil
	}
	// Other users of the machine stay out, so they cannot speak to the tool
	// socket; the sandbox's own user gets in and cannot change anything.
	if err := os.Chown(t.dir, -1, t.id); err != nil {
		return err
	}
	return os.Chmod(t.dir, 0o710)
}

func (t *slot) tools() string  { return filepath.Join(t.dir, "tools") }
func (t *slot) run() string    { return filepath.Join(t.dir, "run") }
func (t *slot) socket() string { return filepath.Join(t.run(), filepath.Base(sandbox.ToolSocket)) }

// write puts the job's files where the sandbox sees them. Modes are set
// explicitly, because the server's umask may be strict.
func (t *slot) write(files []sandbox.File) error {
	made := map[string]bool{t.tools(): true}
	for _, f := range files {
		to := filepath.Join(t.tools(), filepath.FromSlash(f.Path))
		if err := t.makeParents(filepath.Dir(to), made); err != nil {
			return fmt.Errorf("sandbox files: %w", err)
		}
		if err := os.WriteFile(to, f.Content, 0o600); err != nil {
			return fmt.Errorf("sandbox files: %w", err)
		}
		if err := os.Chmod(to, 0o444); err != nil {
			return fmt.Errorf("sandbox files: %w", err)
		}
	}
	return nil
}

func (t *slot) makeParents(dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := t.makeParents(filepath.Dir(dir), made); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	made[dir] = true
	return os.Chmod(dir, 0o755)
}

// release removes the folder and gives the number back.
func (t *slot) release() error {
	err := os.RemoveAll(t.dir)
	return errors.Join(err, t.lock.Close())
}

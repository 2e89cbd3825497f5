package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/modules/sandbox"
)

// firstUID is the user, and the group, of slot 0 when the server runs as root.
// Slot n has firstUID+n. Nothing else on a machine uses this range: it lies
// above ordinary users and below what container tools hand out.
const firstUID = 200_000

// maxSlots bounds the interpreters of all servers that share a RunDir.
const maxSlots = 10_000

// Slots hands out numbered folders. A slot belongs to whoever holds the lock
// on its lock file; a folder whose lock is free was left by a server that
// crashed. Lock files stay, because removing one that another server is about
// to lock would give the slot to two.
type Slots struct {
	dir  string
	root bool
}

// Slot is one interpreter's folder and, under a server that runs as root, its
// user: no two interpreters that run at once share one.
type Slot struct {
	dir  string // holds tools and run
	ID   int    // user and group; -1: those of the server
	lock *os.File
}

// OpenSlots prepares the folder below parent and clears what is stale in it.
func OpenSlots(parent string) (*Slots, error) {
	s := &Slots{
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

// Dir is the folder that holds the slots, and what lives longer than they do.
func (s *Slots) Dir() string { return s.dir }

func (s *Slots) clearStale() error {
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
func (s *Slots) lock(n int) (*os.File, error) {
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

// Take makes the first free slot.
func (s *Slots) Take() (*Slot, error) {
	for n := range maxSlots {
		lock, err := s.lock(n)
		if err != nil {
			return nil, err
		}
		if lock == nil {
			continue
		}
		t := &Slot{dir: filepath.Join(s.dir, strconv.Itoa(n)), ID: -1, lock: lock}
		if s.root {
			t.ID = firstUID + n
		}
		if err := t.make(); err != nil {
			return nil, errors.Join(fmt.Errorf("sandbox slot: %w", err), t.Release())
		}
		return t, nil
	}
	return nil, errors.New("sandbox slots: all are taken")
}

func (t *Slot) make() error {
	if err := os.RemoveAll(t.dir); err != nil {
		return err
	}
	for _, dir := range []string{t.dir, t.Tools(), t.Run()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	for _, dir := range []string{t.Tools(), t.Run()} {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	if t.ID < 0 {
		return nil
	}
	// Other users of the machine stay out, so they cannot speak to the tool
	// socket; the sandbox's own user gets in and cannot change anything.
	if err := os.Chown(t.dir, -1, t.ID); err != nil {
		return err
	}
	return os.Chmod(t.dir, 0o710)
}

// Tools is the folder of the job's files, as the host sees it.
func (t *Slot) Tools() string { return filepath.Join(t.dir, "tools") }

// Run is the folder of the tool socket, as the host sees it.
func (t *Slot) Run() string { return filepath.Join(t.dir, "run") }

// Own is a folder for the driver, which the sandbox does not see. It does not
// exist yet.
func (t *Slot) Own() string { return filepath.Join(t.dir, "own") }

func (t *Slot) socket() string { return filepath.Join(t.Run(), filepath.Base(sandbox.ToolSocket)) }

// Children are slots inside a slot: those of interpreters that one cell holds,
// and that share its user.
type Children struct {
	slot *Slot

	mu   sync.Mutex
	next int
}

// Children makes the folder for them.
func (t *Slot) Children() (*Children, error) {
	c := &Children{slot: t}
	if err := os.Mkdir(c.Dir(), 0o700); err != nil {
		return nil, fmt.Errorf("sandbox slot: %w", err)
	}
	if err := os.Chmod(c.Dir(), 0o711); err != nil {
		return nil, fmt.Errorf("sandbox slot: %w", err)
	}
	return c, nil
}

// Dir is the folder that holds all of them.
func (c *Children) Dir() string { return filepath.Join(c.slot.dir, "c") }

// Take makes one more, under a number that none had before.
func (c *Children) Take() (number int, s *Slot, err error) {
	c.mu.Lock()
	c.next++
	number = c.next
	c.mu.Unlock()
	s = &Slot{dir: filepath.Join(c.Dir(), strconv.Itoa(number)), ID: c.slot.ID}
	if err := s.make(); err != nil {
		return 0, nil, errors.Join(fmt.Errorf("sandbox slot: %w", err), s.Release())
	}
	return number, s, nil
}

// write puts the job's files where the sandbox sees them. Modes are set
// explicitly, because the server's umask may be strict.
func (t *Slot) write(files []sandbox.File) error {
	made := map[string]bool{t.Tools(): true}
	for _, f := range files {
		to := filepath.Join(t.Tools(), filepath.FromSlash(f.Path))
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

func (t *Slot) makeParents(dir string, made map[string]bool) error {
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

// Release removes the folder and gives the number back.
func (t *Slot) Release() error {
	err := os.RemoveAll(t.dir)
	if t.lock == nil {
		return err // a child's
	}
	return errors.Join(err, t.lock.Close())
}

package gvisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/modules/sandbox/guest"
)

const (
	// keepImages is how long an image is kept that nobody uses.
	keepImages = 24 * time.Hour
	// lookAgain is how often a lock is tried that another server holds.
	lookAgain = 20 * time.Millisecond
	// makeTimeout bounds the import of all modules and the saving.
	makeTimeout = 2 * time.Minute
)

// making is the image of a driver, when done is closed.
type making struct {
	done chan struct{}
	path string
	err  error
}

// saved returns the folder of the image, which it makes unless there is one. A
// caller that does not wait for it does not end its making.
func (d *Driver) saved(ctx context.Context, runsc string) (string, error) {
	d.mu.Lock()
	m := d.image
	if m != nil {
		select {
		case <-m.done:
			if m.err != nil {
				m = nil // tried again
			}
		default:
		}
	}
	if m == nil {
		m = &making{done: make(chan struct{})}
		d.image = m
		d.host.Go(func(closing context.Context) {
			defer close(m.done)
			closing, cancel := context.WithTimeout(closing, makeTimeout)
			defer cancel()
			m.path, m.err = d.obtain(closing, runsc)
		})
	}
	d.mu.Unlock()
	select {
	case <-m.done:
		return m.path, m.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// obtain finds an image that another server made, or makes it.
func (d *Driver) obtain(ctx context.Context, runsc string) (string, error) {
	key, err := d.key(runsc)
	if err != nil {
		return "", fmt.Errorf("sandbox image: %w", err)
	}
	path := filepath.Join(d.host.Slots.Dir(), "image-"+key)
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("sandbox image: %w", err)
	}
	if err := d.makeOnce(ctx, runsc, path, lock); err != nil {
		lock.Close()
		return "", fmt.Errorf("sandbox image: %w", err)
	}
	d.mu.Lock()
	d.holding = append(d.holding, lock)
	d.mu.Unlock()
	return path, nil
}

// makeOnce returns with a shared lock on the image, which exists then.
func (d *Driver) makeOnce(ctx context.Context, runsc, path string, lock *os.File) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		// Whoever makes the image is alone; whoever uses it is not.
		if unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
			now := time.Now()
			if os.Chtimes(path, now, now) == nil { // it exists, and is used
				return nil
			}
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				if err := d.make(ctx, runsc, path); err != nil {
					return err
				}
				d.prune(path)
			}
			continue // with a shared lock
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// key says what an image depends on.
func (d *Driver) key(runsc string) (string, error) {
	info, err := os.Stat(runsc)
	if err != nil {
		return "", err
	}
	stamp, err := os.ReadFile(filepath.Join(d.host.Root, ".stamp"))
	if err != nil {
		return "", fmt.Errorf("%w; build the sandbox's root with tools/sandbox-root.sh", err)
	}
	spec, err := json.Marshal(d.bundle(&guest.Slot{}, true))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %d %d\n%s\n%s\n%s\n%s", runsc, info.Size(), info.ModTime().UnixNano(), options(""), stamp, spec, d.greeting)
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// make brings a sandbox to the point where it would serve, and saves it.
func (d *Driver) make(ctx context.Context, runsc, path string) (err error) {
	slot, err := d.host.Slots.Take()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, slot.Release()) }()
	dir := slot.Own()
	if err := writeBundle(dir, d.bundle(slot, true)); err != nil {
		return err
	}
	b, err := openBox(site{spawner: d.host.Spawner, runsc: runsc, dir: dir, input: d.greeting}, "run", "--bundle="+dir, boxID)
	if err != nil {
		return err
	}
	defer b.release()
	if err := d.save(ctx, b, runsc, filepath.Join(dir, "image")); err != nil {
		return b.explain(ctx, err)
	}
	if err := b.Kill(); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "image"), path)
}

// save waits until the interpreter has imported everything and saves the
// sandbox, which ends then.
func (d *Driver) save(ctx context.Context, b *box, runsc, image string) error {
	defer context.AfterFunc(ctx, func() { _ = b.Stdout.SetReadDeadline(time.Unix(1, 0)) })()
	var ready [1]byte
	if _, err := b.Stdout.Read(ready[:]); err != nil || ready[0] != 'R' {
		return errors.Join(errors.New("the interpreter did not come up"), err)
	}
	if err := os.Mkdir(image, 0o700); err != nil {
		return err
	}
	arguments := append(options(b.dir), "checkpoint", "--image-path="+image, "--exclude-committed-zero-pages", boxID)
	cmd := exec.CommandContext(ctx, runsc, arguments...)
	cmd.Env = []string{}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("save: %w: %s", err, said)
	}
	return nil
}

// prune removes images that nobody has used for long.
func (d *Driver) prune(except string) {
	locks, _ := filepath.Glob(filepath.Join(d.host.Slots.Dir(), "image-*.lock")) // the pattern is valid
	for _, name := range locks {
		path := name[:len(name)-len(".lock")]
		info, err := os.Stat(path)
		if err != nil || path == except || time.Since(info.ModTime()) < keepImages {
			continue
		}
		lock, err := os.OpenFile(name, os.O_RDWR, 0o600)
		if err != nil {
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(path) // the next one tries again
		}
		lock.Close()
	}
}

package configs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long the directory must be left alone before the file is
	// read: an editor may truncate the file and write it in several steps.
	settle = 100 * time.Millisecond
	// maxSettle bounds that wait in a directory that is never left alone.
	maxSettle = 2 * time.Second
)

// Watch calls onChange with a freshly loaded configuration whenever the
// content of the configuration file has changed, and onError when it cannot be
// read or is not valid; the configuration before stays the good one then. It
// calls one of them once at the beginning, so that a change made between Load
// and Watch is not lost. The calls come one after the other.
//
// Watch blocks until ctx ends and then returns nil. It fails only when the
// file cannot be watched. Without a file it just waits for ctx.
func Watch(ctx context.Context, o Options, onChange func(*Config), onError func(error)) error {
	path := o.file()
	if path == "" {
		<-ctx.Done()
		return nil
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch the configuration file: %w", err)
	}
	w := &watch{path: path, options: o, watcher: watcher, onChange: onChange, onError: onError}
	return errors.Join(w.run(ctx), watcher.Close())
}

type watch struct {
	path     string
	options  Options
	watcher  *fsnotify.Watcher
	onChange func(*Config)
	onError  func(error)

	last    []byte // the content or the failure that was reported last
	lastErr string
	begun   bool
}

func (w *watch) run(ctx context.Context) error {
	if err := w.follow(); err != nil {
		return err
	}
	w.reload()
	// A nil channel never fires: nothing has happened yet.
	var quiet, overdue <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.watcher.Errors:
			// Events may have been lost, so look at the file as well.
			w.onError(fmt.Errorf("watch the configuration file: %w", err))
			quiet = time.After(settle)
			continue
		case <-w.watcher.Events:
			quiet = time.After(settle)
			if overdue == nil {
				overdue = time.After(maxSettle)
			}
			continue
		case <-quiet:
		case <-overdue:
		}
		quiet, overdue = nil, nil
		if err := w.follow(); err != nil {
			w.onError(err)
		}
		w.reload()
	}
}

// follow watches the directory of the file, not the file: editors replace it
// by renaming another over it, and Kubernetes swaps a symbolic link beside it.
// Where the file is itself a link, the directory it leads to counts as well.
func (w *watch) follow() error {
	directory := filepath.Dir(w.path)
	if err := w.watcher.Add(directory); err != nil {
		return fmt.Errorf("watch %s: %w", directory, err)
	}
	target, err := filepath.EvalSymlinks(w.path)
	if err != nil {
		// The file is gone for now; the reload reports that.
		return nil //nolint:nilerr // see above
	}
	if err := w.watcher.Add(filepath.Dir(target)); err != nil {
		return fmt.Errorf("watch %s: %w", filepath.Dir(target), err)
	}
	return nil
}

// reload reports the file if it is not what was reported last.
func (w *watch) reload() {
	content, err := os.ReadFile(w.path)
	if err != nil {
		w.fail(readError(w.path, err))
		return
	}
	if w.begun && w.lastErr == "" && bytes.Equal(content, w.last) {
		return
	}
	w.begun, w.last, w.lastErr = true, content, ""
	config, err := load(content, w.options.environment())
	if err != nil {
		w.onError(err)
		return
	}
	w.onChange(config)
}

// fail reports that the file cannot be read, once for each reason.
func (w *watch) fail(err error) {
	if w.begun && w.lastErr == err.Error() {
		return
	}
	w.begun, w.lastErr = true, err.Error()
	w.onError(err)
}

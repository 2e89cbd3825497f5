package configs_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/portico-run/portico/configs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched is a running Watch and what it reported.
type watched struct {
	changes chan *configs.Config
	errors  chan error
	stop    func()
}

func watch(t *testing.T, o configs.Options) watched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := watched{make(chan *configs.Config, 16), make(chan error, 16), cancel}
	done := make(chan error, 1)
	go func() {
		done <- configs.Watch(ctx, o, func(c *configs.Config) { w.changes <- c }, func(err error) { w.errors <- err })
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Watch = %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Watch did not stop")
		}
	})
	return w
}

// hash waits for the next change and returns the SDK hash it brings.
func (w watched) hash(t *testing.T) string {
	t.Helper()
	select {
	case c := <-w.changes:
		return c.Sandbox.S3Lib.Hash
	case err := <-w.errors:
		t.Fatalf("an error instead of a change: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("no change was reported")
	}
	return ""
}

func (w watched) failure(t *testing.T) string {
	t.Helper()
	select {
	case err := <-w.errors:
		return err.Error()
	case c := <-w.changes:
		t.Fatalf("a change instead of an error: hash %q", c.Sandbox.S3Lib.Hash)
	case <-time.After(10 * time.Second):
		t.Fatal("no error was reported")
	}
	return ""
}

func withHash(hash string) string { return "sandbox:\n  s3lib:\n    hash: " + hash + "\n" }

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, target, link string) {
	t.Helper()
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("hash = %q, want %q", got, want)
	}
}

func TestWatchFollowsEveryKindOfChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "portico.yaml")
	write(t, path, withHash("one"))
	w := watch(t, configs.Options{File: path})
	expect(t, w.hash(t), "one")

	write(t, path, withHash("two"))
	expect(t, w.hash(t), "two")

	// An editor writes a new file and renames it over the old one, twice: the
	// second time the file that is watched is no longer the first one.
	for _, next := range []string{"three", "four"} {
		write(t, path+".tmp", withHash(next))
		rename(t, path+".tmp", path)
		expect(t, w.hash(t), next)
	}

	// The same content again is no change, so the next report is the next one.
	write(t, path, withHash("four"))
	write(t, filepath.Join(dir, "unrelated"), "x")
	write(t, path, withHash("five"))
	expect(t, w.hash(t), "five")
}

func TestWatchKeepsTheLastGoodOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "portico.yaml")
	write(t, path, withHash("one"))
	w := watch(t, configs.Options{File: path})
	expect(t, w.hash(t), "one")

	write(t, path, "ptc: [")
	if got := w.failure(t); !strings.Contains(got, "not valid YAML") {
		t.Fatalf("error = %q", got)
	}
	write(t, path, "log: {level: loud}")
	if got := w.failure(t); !strings.Contains(got, "LOG_LEVEL") {
		t.Fatalf("error = %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := w.failure(t); !strings.Contains(got, "does not exist") {
		t.Fatalf("error = %q", got)
	}
	write(t, path, withHash("two"))
	expect(t, w.hash(t), "two")
}

// Kubernetes mounts a ConfigMap as links through ..data, and swaps that link.
func TestWatchFollowsKubernetes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "portico.yaml")
	publish := func(version, hash string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "portico.yaml"), withHash(hash))
		symlink(t, version, filepath.Join(dir, "..data_tmp"))
		rename(t, filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data"))
	}
	publish("..1", "one")
	symlink(t, filepath.Join("..data", "portico.yaml"), path)
	w := watch(t, configs.Options{File: path})
	expect(t, w.hash(t), "one")
	publish("..2", "two")
	expect(t, w.hash(t), "two")
	if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
		t.Fatal(err)
	}
	publish("..3", "three")
	expect(t, w.hash(t), "three")
}

// A link to a file in another directory, which is edited there.
func TestWatchFollowsALink(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "real.yaml")
	path := filepath.Join(t.TempDir(), "portico.yaml")
	write(t, target, withHash("one"))
	symlink(t, target, path)
	w := watch(t, configs.Options{File: path})
	expect(t, w.hash(t), "one")
	write(t, target, withHash("two"))
	expect(t, w.hash(t), "two")
}

func TestWatchLetsTheEnvironmentWin(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "portico.yaml")
	write(t, path, withHash("one"))
	w := watch(t, configs.Options{Environ: []string{"PORTICO_CONFIG=" + path, "SANDBOX_S3LIB_HASH=fixed"}})
	expect(t, w.hash(t), "fixed")
}

func TestWatchWithoutAFileWaits(t *testing.T) {
	t.Parallel()
	w := watch(t, configs.Options{})
	w.stop()
	if len(w.changes) != 0 || len(w.errors) != 0 {
		t.Error("something was reported")
	}
}

func TestWatchOfAMissingDirectoryFails(t *testing.T) {
	t.Parallel()
	err := configs.Watch(t.Context(), configs.Options{File: filepath.Join(t.TempDir(), "none", "x.yaml")}, nil, nil)
	if err == nil {
		t.Error("no error")
	}
}

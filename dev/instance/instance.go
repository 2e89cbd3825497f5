// Package instance runs Portico as a process of its own, for programs that
// measure it from outside: it builds, starts, watches and stops it.
package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/portico-run/portico/internal/lifecycle"
)

const (
	readyTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
)

// BuildFlags are those of a binary that is given to users.
func BuildFlags() []string { return []string{"-trimpath", "-ldflags=-s -w", "-tags=nomsgpack"} }

// Build compiles the server of a checkout into a folder and returns its path.
func Build(ctx context.Context, checkout, into string) (program string, err error) {
	program = filepath.Join(into, "portico")
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, BuildFlags()...), "-o", program, "./cmd/api")...)
	cmd.Dir = checkout
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the server: %w: %s", err, out)
	}
	return program, nil
}

// Config is what a server is started with.
type Config struct {
	Program string
	// Dir is the folder it works in; objects and logs go there.
	Dir      string
	Database string
	// Env replaces settings, each as NAME=value.
	Env []string
}

// Server is a process that serves.
type Server struct {
	URL string
	// Took is the time from its start until it was ready.
	Took time.Duration

	config Config
	env    []string
	cmd    *exec.Cmd
	ended  chan error
	log    *os.File
}

// Start starts a server and waits until it is ready.
func Start(ctx context.Context, c Config) (*Server, error) {
	listen, err := FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	upstream, err := FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	return start(ctx, c, listen,
		"DATABASE_URL="+c.Database, "OBJECT_STORAGE_FOLDER="+c.Dir, "PORTICO_LISTEN="+listen, "DEMO_LISTEN="+upstream,
		"PTC_MODE=on", "SANDBOX_POOL=0", "TOOL_RATE_PER_KEY=0", "TOOL_RATE_PER_RUN=0",
		"ENCRYPTION_KEY="+strings.Repeat("0a", 32), "JWT_SECRET="+strings.Repeat("s", 32),
	)
}

// start starts a process that listens at an address, and waits until it is ready.
func start(ctx context.Context, c Config, listen string, env ...string) (s *Server, err error) {
	s = &Server{URL: "http://" + listen, config: c, ended: make(chan error, 1)}
	s.env = slices.Concat(env, []string{
		"LOG_LEVEL=error", "HOME=" + os.Getenv("HOME"), "XDG_DATA_HOME=" + os.Getenv("XDG_DATA_HOME"), "PATH=" + os.Getenv("PATH"),
	}, c.Env)
	if s.log, err = os.Create(filepath.Join(c.Dir, "server.log")); err != nil {
		return nil, err
	}
	s.cmd = s.command(context.WithoutCancel(ctx), "serve")
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	go func() { s.ended <- s.cmd.Wait() }()
	if err := s.ready(ctx, begin); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	s.Took = time.Since(begin)
	return s, nil
}

func (s *Server) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.config.Program, args...)
	cmd.Env = s.env
	return cmd
}

func (s *Server) ready(ctx context.Context, begin time.Time) error {
	for time.Since(begin) < readyTimeout {
		if answers(ctx, s.URL+"/readyz") {
			return nil
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("the server ended: %w: %s", err, s.Log())
		default:
		}
		if err := lifecycle.Pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("the server did not become ready: %s", s.Log())
}

func answers(ctx context.Context, url string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // only the status was asked for
	return resp.StatusCode == http.StatusOK
}

// maxLog is how much of a server's log is shown.
const maxLog = 4 << 10

// Log is the end of what the server wrote.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-maxLog):])
}

// PID is the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Run runs a command of the program with the server's settings.
func (s *Server) Run(ctx context.Context, args ...string) (stdout []byte, err error) {
	cmd := s.command(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if stdout, err = cmd.Output(); err != nil {
		err = fmt.Errorf("portico %s: %w: %s", strings.Join(args, " "), err, &stderr)
	}
	return stdout, err
}

// Stop ends the server as an operator does, and kills one that stays.
func (s *Server) Stop(ctx context.Context) error {
	defer s.log.Close()
	err := s.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("the server had ended: %s", s.Log())
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case failed := <-s.ended:
		return errors.Join(err, failed)
	case <-timer.C:
		err = errors.Join(err, errors.New("the server did not stop"))
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	return errors.Join(err, s.cmd.Process.Kill(), <-s.ended)
}

// Kill ends the server as a machine does that fails.
func (s *Server) Kill() error {
	err := s.cmd.Process.Kill()
	if failed := <-s.ended; failed == nil {
		err = errors.Join(err, errors.New("the server had ended by itself"))
	}
	return errors.Join(err, s.log.Close())
}

// FreeAddress is an address of this machine that nobody listens on.
func FreeAddress(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

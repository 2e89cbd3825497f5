// Package redistest starts Redis servers for tests.
package redistest

import (
	"context"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/portico-run/portico/internal/testenv"
)

// Server is a Redis of one test, at an address that stays the same.
type Server struct {
	t       testing.TB
	program string
	args    []string
	command *exec.Cmd

	Address string
	// Client asks it; its connections are not those of what is tested.
	Client *redis.Client
}

const patience = 20 * time.Second

// Start starts a server that keeps nothing on disk and ends with the test.
func Start(t testing.TB, password string) *Server {
	t.Helper()
	s := &Server{t: t, program: testenv.Need(t, "PORTICO_REDIS_SERVER", "tools/redis.sh prints it"), Address: testenv.FreeAddress(t)}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		t.Fatal(err)
	}
	s.args = []string{"--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir()}
	if password != "" {
		s.args = append(s.args, "--requirepass", password)
	}
	s.Client = redis.NewClient(&redis.Options{Addr: s.Address, Password: password})
	t.Cleanup(func() {
		_ = s.Client.Close()
		s.Kill()
	})
	s.Restart()
	return s
}

// URL is where it is.
func (s *Server) URL() string { return "redis://" + s.Address + "/0" }

// Restart starts it anew, with nothing in it.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.command = exec.Command(s.program, s.args...) // Kill ends it
	if err := s.command.Start(); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for s.Client.Ping(ctx).Err() != nil {
		if ctx.Err() != nil {
			s.t.Fatal("Redis does not answer")
		}
	}
}

// Kill ends it at once.
func (s *Server) Kill() {
	if s.command != nil && s.command.ProcessState == nil {
		_ = s.command.Process.Kill()
		_ = s.command.Wait()
	}
}

package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/modules/run/bound"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/bubblewrap"
	"github.com/portico-run/portico/modules/sandbox/forkserver"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/gvisor"
	"github.com/portico-run/portico/modules/sandbox/isolation"
)

// queueTimeout is how long a program waits for its turn before its caller is
// asked to come back.
const queueTimeout = 10 * time.Second

func (a *App) engine() (*sandbox.Engine, error) {
	s := a.Config.Sandbox
	if s.Driver == configs.Remote {
		return a.remote()
	}
	driver, err := a.driver()
	if err != nil {
		return nil, err
	}
	return a.engineOf(driver, sandbox.Pool{Min: s.Pool, Max: a.maxPool()}), nil
}

func (a *App) engineOf(driver sandbox.Driver, pool sandbox.Pool) *sandbox.Engine {
	s := a.Config.Sandbox
	return sandbox.New(sandbox.Deps{
		Driver: driver, Pool: pool, MaxConcurrent: s.MaxConcurrent, MaxQueue: s.MaxQueue, MaxPaused: s.MaxPaused,
		PerOwner: sandbox.Counts{Running: s.MaxPerUser, Queued: s.MaxQueuePerUser, Paused: s.MaxPausedPerUser},
		Queue:    sandbox.Queue{Timeout: queueTimeout, Admit: a.admit}, Logger: a.Logger,
	})
}

// admit counts a program of a user in among those of all processes.
func (a *App) admit(ctx context.Context, uid string, most int) (leave func(), err error) {
	visit, err := a.Bounds.Enter(ctx, []bound.Limit{{UID: uid, Name: "programs", Bound: bound.Bound{AtOnce: most}}})
	if _, over := errors.AsType[*bound.Over](err); over {
		return nil, sandbox.ErrOwnerBusy.Do("Wait for one to end; send the program again after Retry-After.").After(time.Second)
	}
	if err != nil {
		return nil, err
	}
	return visit.Leave, nil
}

// driver runs programs on this machine.
func (o Options) driver() (sandbox.Driver, error) {
	c := o.sandboxConfig()
	switch o.Config.Sandbox.Driver {
	case configs.Bubblewrap:
		c.Preload = preload(c, bubblewrap.DefaultPreload())
		return bubblewrap.New(c)
	case configs.GVisor:
		c.Program, c.Preload = o.Config.Sandbox.Runsc, preload(c, gvisor.DefaultPreload())
		return gvisor.New(c)
	default:
		c.Preload = preload(c, forkserver.DefaultPreload())
		return forkserver.New(c)
	}
}

func preload(c guest.Config, usual []string) []string {
	if len(c.Preload) > 0 {
		return c.Preload
	}
	return usual
}

func (o Options) sandboxConfig() guest.Config {
	s := o.Config.Sandbox
	root := s.Root
	if root == "" {
		root = guest.DefaultRoot(o.Environ)
	}
	return guest.Config{Root: root, RunDir: s.RunDir, Preload: s.Preload, Limits: sandbox.Limits{
		Memory: s.Memory, Disk: s.Disk, FileSize: s.FileSize, Output: s.Output, Processes: s.Processes, OpenFiles: s.OpenFiles,
	}}
}

// What an idle interpreter costs, roughly, and how much of the machine idle
// interpreters may take; see make bench.
const (
	forkMemory       = 8 << 20
	singleMemory     = 110 << 20
	kernelMemory     = 120 << 20
	idleShare        = 8 // one in so many bytes
	mostInterpreters = 64
)

// maxPool is how large the pool may grow.
func (o Options) maxPool() int {
	s := o.Config.Sandbox
	if s.MaxPool > 0 {
		return s.MaxPool
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return s.Pool
	}
	each := map[string]uint64{configs.Bubblewrap: singleMemory, configs.GVisor: kernelMemory}[s.Driver]
	if each == 0 {
		each = forkMemory
	}
	total := info.Totalram * uint64(info.Unit)
	return max(s.Pool, int(min(total/idleShare/each, mostInterpreters)))
}

// guard keeps a production server from starting where programs are not kept
// apart as the configuration asks.
type guard struct {
	Options

	engine *sandbox.Engine
}

// Start implements lifecycle.Service.
func (g guard) Start(ctx context.Context) error {
	c := g.Config
	if c.Server.Mode != configs.Production {
		return nil
	}
	want := isolation.Level(c.Sandbox.Isolation)
	if want == isolation.None {
		return nil
	}
	level, findings := isolation.Probe(ctx, g.engine)
	if level.AtLeast(want) {
		return nil
	}
	for _, f := range findings {
		if !f.OK {
			g.Logger.ErrorContext(ctx, "a layer of the sandbox does not hold", "layer", f.Check, "found", f.Text)
		}
	}
	return fmt.Errorf("the sandbox gives isolation %q, SANDBOX_ISOLATION asks for %q: portico doctor shows the layers", level, want)
}

// Stop implements lifecycle.Service.
func (guard) Stop(context.Context) error { return nil }

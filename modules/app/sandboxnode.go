package app

import (
	"context"
	"net"
	"time"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/internal/telemetry"
	"github.com/portico-run/portico/internal/telemetry/operator"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/remote/machine"
	"github.com/portico-run/portico/modules/sandbox/remote/wire"
)

// SandboxNode is a process that runs programs of servers, and nothing else. It has no
// database and no key.
type SandboxNode struct {
	Options

	group   lifecycle.Group
	engine  *sandbox.Engine
	machine *machine.Machine
}

// NewSandboxNode wires a sandbox node. It starts nothing.
func NewSandboxNode(o Options) (*SandboxNode, error) {
	s := o.Config.Sandbox
	driver, err := o.driver()
	if err != nil {
		return nil, err
	}
	trust := machine.Trust{One: s.Nodes.Tenants == configs.TenantsOne}
	for _, text := range s.Nodes.Trust {
		key, err := wire.ParseKey(text)
		if err != nil {
			return nil, err
		}
		trust.Keys = append(trust.Keys, key)
	}
	secured, err := nodeTLS(s.Nodes)
	if err != nil {
		return nil, err
	}
	n := &SandboxNode{Options: o}
	// Servers say who runs and who is paused, so that nothing waits for a turn here; how
	// many there may be, the machine says.
	all := s.MaxConcurrent + s.MaxPaused
	n.engine = sandbox.New(sandbox.Deps{Driver: driver, Pool: sandbox.Pool{Min: s.Pool, Max: o.maxPool()}, MaxConcurrent: 2 * all, MaxPaused: 2 * all, Logger: o.Logger})
	metrics := telemetry.New()
	n.machine = machine.New(machine.Deps{
		Engine: n.engine, Listen: s.Nodes.Listen, Trust: trust, Room: machine.Room{Running: s.MaxConcurrent, Paused: s.MaxPaused},
		TLS: secured, Version: Version, Metrics: metrics.Handler(), Logger: o.Logger,
	})
	measureSandbox(metrics, n.stats, sandbox.Counts{Running: s.MaxConcurrent, Paused: s.MaxPaused})
	if a := o.Config.Admin; a.Listen != "" {
		n.group.Add("the server for operators", operator.New(operator.Deps{Listen: a.Listen, Token: a.Token.Reveal(), Level: o.Level, Metrics: metrics.Handler(), Logger: o.Logger}))
	}
	n.group.Add("the sandbox", n.engine)
	n.group.Add("the isolation of programs", guard{o, n.engine})
	n.group.Add("the listener for programs", n.machine)
	return n, nil
}

// stats is what the engine does, with those counted as paused of whom servers say so.
func (n *SandboxNode) stats() sandbox.Stats {
	s, of := n.engine.Stats(), n.machine.Status()
	s.Counts = sandbox.Counts{Running: of.Running, Paused: of.Paused}
	return s
}

// Start starts the sandbox, and listens when programs are kept apart as they should.
func (n *SandboxNode) Start(ctx context.Context) error { return n.group.Start(ctx) }

// Addr is where the node listens.
func (n *SandboxNode) Addr() net.Addr { return n.machine.Addr() }

// Drain takes no more programs, and returns when none is left, at the latest after the
// time of the configuration, or when ctx ends.
func (n *SandboxNode) Drain(ctx context.Context) {
	n.machine.Drain()
	limit := n.Config.Server.DrainTimeout
	n.Logger.InfoContext(ctx, "this sandbox node is about to end; its programs finish first", "limit", limit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	look := time.NewTicker(lookAtWork)
	defer look.Stop()
	for n.machine.Working() > 0 {
		select {
		case <-ctx.Done():
			n.Logger.WarnContext(ctx, "this sandbox node ends with programs that did not finish", "count", n.machine.Working())
			return
		case <-look.C:
		}
	}
}

// Stop ends what is left.
func (n *SandboxNode) Stop(ctx context.Context) error { return n.group.Stop(ctx) }

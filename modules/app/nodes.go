package app

import (
	"context"
	"errors"

	"github.com/portico-run/portico/modules/run/bound"
	"github.com/portico-run/portico/modules/run/lease"
	"github.com/portico-run/portico/modules/run/node"
)

// nodes wires this process among the others that serve the same database, and what
// ends the work of those that are gone.
func (a *App) nodes() {
	a.Nodes = node.New(node.Deps{
		DB: a.DB, Self: node.Node{ID: a.Owner, Address: a.Config.Peers.Place(), Version: Version, Role: a.Config.Server.Role}, Lease: a.Config.Tool.Lease,
		Load: a.load, Draining: a.ending.begun, Lost: a.lost, Drain: a.ending.ask, Logger: a.Logger,
	})
	a.Hub.Follow(node.Topic, func(id string) {
		if id != a.Owner {
			a.Nodes.Look()
		}
	})
	a.Leases = lease.New(lease.Deps{
		DB: a.DB, Runs: a.Runs.Service, Calls: a.Records.Service, Agents: a.Agents.Service, Lease: a.Config.Tool.Lease, Logger: a.Logger,
	})
	a.Metrics.Gauge("portico_nodes", "Server processes that share the database, as this one knows.", func() float64 { return float64(a.Nodes.Count()) })
}

// bounds wires what counts over all processes.
func (a *App) bounds() {
	a.Bounds = bound.New(bound.Deps{
		DB: a.DB, Self: a.Owner, Processes: func() int { return a.Nodes.Count() }, Now: a.DB.Now, Logger: a.Logger,
	})
}

// load is what the sandbox of this process does.
func (a *App) load() node.Load {
	now, most := a.Engine.Stats(), a.Engine.Most()
	return node.Load{Capacity: most.Running, Running: now.Running, Queued: now.Queued, MaxPaused: most.Paused, Paused: now.Paused}
}

// lost ends what this process works on, when others have given it up. Runs of agents
// go on, here or elsewhere; what else was begun here has ended.
func (a *App) lost(ctx context.Context) error {
	a.Agents.Service.Abandon()
	a.Interpreters.Service.Abandon()
	a.Engine.Abandon()
	return errors.Join(a.Runs.Service.Abandon(ctx), a.Records.Service.Abandon(ctx))
}

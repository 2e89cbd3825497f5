package app

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/peer"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/program/repl"
	"github.com/portico-run/portico/modules/run/node"
)

// peers wires how this process and the others of its database ask each other; nothing
// where it listens for none.
func (a *App) peers() error {
	c := a.Config.Peers
	if c.Listen == "" {
		return nil
	}
	var secured *tls.Config
	if c.Certificate != "" {
		var err error
		if secured, err = peer.TLS("PORTICO_PEER_TLS", c.Certificate, c.Key, c.Authority); err != nil {
			return err
		}
	}
	var err error
	a.Peers, err = peer.New(peer.Deps{
		Self: a.Owner, Listen: c.Listen, Keys: serverKeys(a.Config), Nodes: directory{a}, TLS: secured, Now: a.DB.Now, Logger: a.Logger, Ends: a.ending.begun,
	})
	return err
}

// answerPeers says what the others may ask of this process.
func (a *App) answerPeers() {
	if a.Peers == nil {
		return
	}
	a.Peers.Handle(execution.CancelOp, func(ctx context.Context, who actor.Actor, body io.Reader) (any, error) {
		var request string
		if err := json.NewDecoder(body).Decode(&request); err != nil {
			return nil, err
		}
		return a.CodeAPI.Executions.CancelHere(ctx, who, request)
	})
	a.Interpreters.Serve(a.Peers)
	a.Peers.Handle(underWayOp, func(_ context.Context, who actor.Actor, _ io.Reader) (any, error) { return limited{a}.here(who), nil })
	a.Peers.Handle(dialogue.WaitsOp, func(_ context.Context, who actor.Actor, body io.Reader) (any, error) {
		var ids []string
		if err := json.NewDecoder(body).Decode(&ids); err != nil {
			return nil, err
		}
		if !a.Dialogues.WaitsHere(who, ids) {
			return "", nil
		}
		return a.Owner, nil
	})
}

// directory knows the processes as the database does.
type directory struct{ app *App }

// Get implements peer.Directory.
func (d directory) Get(ctx context.Context, id string) (peer.Node, error) {
	n, err := d.app.Nodes.Get(ctx, id)
	if errors.Is(err, node.ErrGone) {
		return peer.Node{}, peer.ErrGone
	}
	return toPeer(n), err
}

// Live implements peer.Directory.
func (d directory) Live(ctx context.Context) ([]peer.Node, error) {
	nodes, err := d.app.Nodes.Live(ctx)
	list := make([]peer.Node, len(nodes))
	for i, n := range nodes {
		list[i] = toPeer(n)
	}
	return list, err
}

func toPeer(n node.Node) peer.Node {
	return peer.Node{ID: n.ID, Address: n.Address, Capacity: n.Load.Capacity, Running: n.Load.Running, Queued: n.Load.Queued, Draining: n.Draining}
}

// forwarder is what hands requests on; nil where there is nobody to hand them to.
func (a *App) forwarder() httpapi.Peers {
	if a.Peers == nil {
		return nil
	}
	return a.Peers
}

// others are the processes that may hold a program; nil where this one is alone.
func (a *App) others() execution.Peers {
	if a.Peers == nil {
		return nil
	}
	return a.Peers
}

// holders are the processes that may hold a conversation; nil where this one is alone.
func (a *App) holders() dialogue.Peers {
	if a.Peers == nil {
		return nil
	}
	return a.Peers
}

// places are the processes that may have an interpreter; nil where this one is alone.
func (a *App) places() repl.Peers {
	if a.Peers == nil {
		return nil
	}
	return a.Peers
}

// spill finds another process for a program where the queue of this one is full, or this
// one is about to end; nil where it is alone.
func (a *App) spill() func(ctx context.Context, pauses bool) string {
	spilled := a.Metrics.Count("portico_sandbox_spilled_total", "Programs that another process was asked to begin, because the queue was full or this one was about to end.")
	if a.Peers == nil {
		return nil
	}
	return func(ctx context.Context, pauses bool) string {
		now, most := a.Engine.Stats(), a.Engine.Most()
		full := now.Running >= most.Running && now.Queued >= most.Queued && (!pauses || now.Paused >= most.Paused)
		if !full && !a.ending.door.Closed() {
			return ""
		}
		node, err := a.Peers.Lighter(ctx)
		if err != nil {
			a.Logger.WarnContext(ctx, "no other process was found for a program", "error", err)
		}
		if node != "" {
			spilled(1)
		}
		return node
	}
}

// known is the id of this process where others can ask it; else empty.
func (a *App) known() string {
	if a.Peers == nil {
		return ""
	}
	return a.Owner
}

package app

import (
	"context"
	"runtime"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/isolation"
)

type sandboxInput struct {
	Probe string `query:"probe" enum:"true,false" doc:"Run a program that looks around from inside: about a second"`
}

type wholeSandboxBody struct {
	Driver    string             `json:"driver" enum:"forkserver,bubblewrap,gvisor"`
	Languages []sandbox.Language `json:"languages" nullable:"false"`
	Idle      int                `json:"idle" doc:"Interpreters that wait for a program"`
	Pool      int                `json:"pool" doc:"Interpreters that are to wait, for the demand there is"`
	Running   shareBody          `json:"running"`
	Queued    shareBody          `json:"queued"`
	Paused    shareBody          `json:"paused"`
	Programs  int                `json:"programs" doc:"That were run since the start"`
	Cold      int                `json:"coldStarts" doc:"Programs that found no interpreter ready"`
	Refused   int                `json:"refused" doc:"Programs that found the queue full, or waited too long"`
	Level     isolation.Level    `json:"isolation,omitempty" enum:"none,namespaces,kernel" doc:"With probe=true: what stands between a program and the machine"`
	Layers    []layerBody        `json:"layers,omitempty" nullable:"false" doc:"With probe=true: what was looked at, on the machine and from inside"`
}

type layerBody struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Text  string `json:"text" doc:"What holds, or what to do about what does not"`
}

func (a admin) sandbox(ctx context.Context, _ actor.Actor, in *sandboxInput) (wholeSandboxBody, error) {
	s, most := a.app.Engine.Stats(), a.app.Engine.Most()
	body := wholeSandboxBody{
		Driver: a.app.Config.Sandbox.Driver, Languages: append([]sandbox.Language{}, a.app.Engine.Languages()...), Idle: s.Idle, Pool: s.Pool,
		Running: share(s.Running, most.Running), Queued: share(s.Queued, most.Queued), Paused: share(s.Paused, most.Paused),
		Programs: s.Jobs, Cold: s.Cold, Refused: s.Refused,
	}
	if in.Probe != "true" {
		return body, nil
	}
	level, inside := isolation.Probe(ctx, a.app.Engine)
	body.Level = level
	for _, f := range append(a.app.machine(ctx), inside...) {
		body.Layers = append(body.Layers, layerBody(f))
	}
	return body, nil
}

type statusBody struct {
	Version    string         `json:"version"`
	Process    string         `json:"process" doc:"Names this process in leases"`
	Goroutines int            `json:"goroutines"`
	Checks     []layerBody    `json:"checks" nullable:"false" doc:"Database, object storage and the settings"`
	Streams    int            `json:"streams" doc:"That somebody follows"`
	Stopped    []stoppedBody  `json:"stoppedUpstreams" nullable:"false" doc:"Nothing is sent to them for a while: they failed too often"`
	Servers    map[string]int `json:"mcpServers" doc:"MCP servers that were asked, by how they do, counted for each user who asked"`
	Redis      *redisBody     `json:"redis,omitempty"`
}

type stoppedBody struct {
	Origin string    `json:"origin"`
	Until  time.Time `json:"until" doc:"Then one call tries first"`
}

// statusTimeout bounds all that the status looks at.
const statusTimeout = 10 * time.Second

func (a admin) status(ctx context.Context, _ actor.Actor, _ *struct{}) (statusBody, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	body := statusBody{
		Version: Version, Process: a.app.Owner, Goroutines: runtime.NumGoroutine(), Streams: a.app.Streams.Open(), Stopped: []stoppedBody{},
		Servers: a.app.serverStates(), Redis: a.app.redisHealth(),
	}
	checks := []Check{a.app.checkDatabase(ctx), a.app.checkObjects(ctx)}
	for _, w := range a.app.Config.Warnings {
		checks = append(checks, Check{"configuration", true, "warning: " + w})
	}
	for _, c := range checks {
		body.Checks = append(body.Checks, layerBody{c.Name, c.OK, c.Text})
	}
	now := time.Now().UTC()
	for _, s := range a.app.upstreams.Stopped() {
		body.Stopped = append(body.Stopped, stoppedBody{s.Origin, now.Add(s.Left)})
	}
	return body, nil
}

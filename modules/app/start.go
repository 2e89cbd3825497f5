package app

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/dev/demo"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/internal/telemetry/operator"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/connector/mcp/describe"
	"github.com/portico-run/portico/modules/ptc"
)

// FirstUser is the name of the user that the first start creates.
const FirstUser = "admin"

// Prepare brings the database to where the program expects it: migrations,
// the first user, the toolset files. The key is set when that user was created
// now; it is nowhere else. Where others migrate, it looks whether they have, and leaves
// the files to them: of processes that start with different files, the last would win.
func (a *App) Prepare(ctx context.Context) (key account.Plaintext, err error) {
	if err := a.Migrate(ctx); err != nil {
		return "", err
	}
	_, key, _, err = a.Accounts.Service.Bootstrap(ctx, FirstUser)
	if err != nil || !a.Config.Server.Migrate {
		return key, err
	}
	if err := a.loadToolsets(ctx); err != nil {
		return key, err
	}
	return key, describe.Boot(ctx, a.MCPFiles(), a.Config.MCP.ServersFile, a.Variables(), a.Logger)
}

// Migrate brings the schema to where the program expects it; where others do, it fails
// unless they have.
func (a *App) Migrate(ctx context.Context) error {
	if !a.Config.Server.Migrate {
		return a.DB.Ready(ctx)
	}
	applied, err := a.DB.Migrate(ctx)
	if applied > 0 {
		a.Logger.InfoContext(ctx, "migrations applied", "count", applied)
	}
	return err
}

// Serving is an app that answers.
type Serving struct {
	app    *App
	group  lifecycle.Group
	server *server
	// operator is nil without an address for operators.
	operator *operator.Server
}

// Addr is where it answers.
func (s *Serving) Addr() net.Addr { return s.server.addr }

// Stop ends everything Start began, the last first.
func (s *Serving) Stop(ctx context.Context) error {
	s.app.ending.began.Store(true)
	return s.group.Stop(ctx)
}

// Start starts everything that works in the background, and answers requests
// once all of it does. Prepare comes first. watch says where the configuration
// came from, to follow its changes.
func (a *App) Start(ctx context.Context, watch configs.Options) (*Serving, error) {
	c := a.Config
	pages, err := a.Console.Handler()
	if err != nil {
		return nil, err
	}
	s := &Serving{app: a, server: &server{handler: httpapi.Forwarded(c.Server.TrustedProxies, pages), listen: c.Server.Listen, grace: c.Server.ShutdownGrace, drain: a.drain, enter: a.ending.door.Enter, logger: a.Logger}}
	if c.Admin.Listen != "" {
		s.operator = operator.New(operator.Deps{Listen: c.Admin.Listen, Token: c.Admin.Token.Reveal(), Level: a.Level, Metrics: a.Metrics.Handler(), Logger: a.Logger})
		s.group.Add("the server for operators", s.operator) // first, to look into a start or a stop that takes long
	}
	if a.tracer != nil {
		s.group.Add("traces", a.tracer) // stops after what it follows
	}
	if c.Demo.Enabled {
		s.group.Add("the demo upstream", demo.New(demo.Deps{Listen: c.Demo.Listen, Logger: a.Logger}))
	}
	if a.DB.Dialect() == database.Postgres {
		s.group.Add("wake-ups", wake.NewListener(a.DB.DirectURL(), database.Channel, a.Hub, a.Logger))
	}
	if a.Publisher != nil {
		s.group.Add("what is published to Redis", a.Publisher)
	}
	if a.Peers != nil {
		// They may come as soon as they know of this process, and its last programs end
		// before they hear nothing more.
		a.Peers.Requests(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			pages.ServeHTTP(w, r.WithContext(a.ending.door.Enter(r.Context())))
		}))
		s.group.Add("the listener for other processes", a.Peers)
	}
	s.group.Add("this process among the others", a.Nodes)
	s.group.Add("what is used in all processes", a.Bounds)
	s.group.Add("the keeper of leases", a.Leases)
	if a.MCP != nil {
		s.group.Add("MCP servers", a.MCP)
	}
	s.group.Add("the sandbox", a.Engine)
	s.group.Add("the isolation of programs", guard{a.Options, a.Engine})
	s.group.Add("the code interpreter API", a.CodeAPI)
	s.group.Add("persistent interpreters", a.Interpreters)
	s.group.Add("MCP clients", a.Clients.Kept)
	s.group.Add("the HTTP server", s.server)
	s.group.Add("streams", a.Streams)
	s.group.Add("approvals", a.Approvals)
	s.group.Add("agents", a.Agents)
	s.group.Add("conversations", a.Dialogues)
	s.group.Add("the memory of an idle server", &background{work: newIdler().run})
	s.group.Add("what is kept no longer", &background{work: a.Retention.Run})
	s.group.Add("housekeeping", &background{work: a.housekeep})
	s.group.Add("the configuration's watch", &background{work: func(ctx context.Context) { a.follow(ctx, watch) }})
	return s, s.group.Start(ctx)
}

// drain lets go of what would keep requests: questions to people first, then programs.
func (a *App) drain(ctx context.Context) {
	a.Clients.Kept.Quiesce()
	a.Programs.Service.Drain(ctx)
}

// background runs one function until it is stopped.
type background struct {
	work func(ctx context.Context)

	once sync.Once
	stop context.CancelFunc
	done chan struct{}
}

// Start implements lifecycle.Service.
func (b *background) Start(ctx context.Context) error {
	ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // Stop calls it
	b.done = make(chan struct{})
	go func() {
		defer close(b.done)
		b.work(ctx)
	}()
	return nil
}

// Stop implements lifecycle.Service.
func (b *background) Stop(context.Context) error {
	if b.stop == nil {
		return nil
	}
	b.once.Do(b.stop)
	<-b.done
	return nil
}

// follow puts changes of the configuration file into force that need no
// restart: the PTC section and the SDK's hash.
func (a *App) follow(ctx context.Context, o configs.Options) {
	inForce := *a.Config
	err := configs.Watch(ctx, o, func(c *configs.Config) {
		if c.PTC == inForce.PTC && c.Sandbox.S3Lib == inForce.Sandbox.S3Lib {
			return
		}
		changed := inForce // what is not followed stays as it was
		changed.PTC = c.PTC
		policy, warnings, err := ptc.Parse(rawPolicy(&changed))
		if err != nil {
			a.Logger.ErrorContext(ctx, "the changed configuration is not valid; the one before stays in force", "error", err)
			return
		}
		a.PTC.Service.Swap(policy)
		a.SDK.Service.Swap(location(c.Sandbox.S3Lib))
		inForce.PTC, inForce.Sandbox.S3Lib = c.PTC, c.Sandbox.S3Lib
		a.Logger.InfoContext(ctx, "the changed configuration is in force", "warnings", warnings)
	}, func(err error) {
		a.Logger.ErrorContext(ctx, "the changed configuration is not valid; the one before stays in force", "error", err)
	})
	if err != nil {
		a.Logger.ErrorContext(ctx, "changes of the configuration are not noticed", "error", err)
	}
}

// purgeEvery is how often expired keys of sandboxes and sessions of code are
// deleted.
const purgeEvery = time.Hour

func (a *App) housekeep(ctx context.Context) {
	ticker := time.NewTicker(purgeEvery)
	defer ticker.Stop()
	for {
		if _, err := a.Accounts.Service.PurgeTemporaryKeys(ctx); err != nil && ctx.Err() == nil {
			a.Logger.ErrorContext(ctx, "expired keys were not deleted", "error", err)
		}
		if err := a.Accounts.Sessions.Purge(ctx); err != nil && ctx.Err() == nil {
			a.Logger.ErrorContext(ctx, "sessions that are over were not deleted", "error", err)
		}
		if err := a.Resources.Purge(ctx); err != nil && ctx.Err() == nil {
			a.Logger.ErrorContext(ctx, "expired files were not deleted", "error", err)
		}
		if err := a.CodeAPI.Purge(ctx); err != nil && ctx.Err() == nil {
			a.Logger.ErrorContext(ctx, "expired sessions of code were not deleted", "error", err)
		}
		if err := a.Interpreters.Purge(ctx); err != nil && ctx.Err() == nil {
			a.Logger.ErrorContext(ctx, "places of interpreters that are over were not forgotten", "error", err)
		}
		if err := a.OpenAI.Purge(ctx); err != nil && ctx.Err() == nil {
			a.Logger.ErrorContext(ctx, "stored responses that are over were not deleted", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

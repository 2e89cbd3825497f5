// Package app wires the modules into one program: it decides what depends on
// what, in which order it starts, and what stops it.
package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/dev/demo"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/egress"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/peer"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/internal/telemetry"
	"github.com/portico-run/portico/internal/telemetry/trace"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/erasure"
	"github.com/portico-run/portico/modules/account/signin"
	"github.com/portico-run/portico/modules/agent"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/codeapi"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/connector/composio"
	"github.com/portico-run/portico/modules/connector/mcp"
	"github.com/portico-run/portico/modules/connector/mcp/api"
	"github.com/portico-run/portico/modules/connector/mcp/hub"
	mcpserver "github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/oauth"
	"github.com/portico-run/portico/modules/connector/oauth/connect"
	"github.com/portico-run/portico/modules/console"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/knowledge"
	"github.com/portico-run/portico/modules/knowledge/answer"
	"github.com/portico-run/portico/modules/knowledge/fetch"
	"github.com/portico-run/portico/modules/model/named"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/program/flat"
	clients "github.com/portico-run/portico/modules/program/mcpserver"
	"github.com/portico-run/portico/modules/program/repl"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/bound"
	"github.com/portico-run/portico/modules/run/erase"
	"github.com/portico-run/portico/modules/run/lease"
	"github.com/portico-run/portico/modules/run/node"
	"github.com/portico-run/portico/modules/run/outside"
	"github.com/portico-run/portico/modules/run/publish"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/run/retention"
	"github.com/portico-run/portico/modules/run/retention/holdings"
	"github.com/portico-run/portico/modules/run/stream"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/remote/agentsandbox"
	"github.com/portico-run/portico/modules/sandbox/remote/registry"
	"github.com/portico-run/portico/modules/sdkbundle"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/approval"
	"github.com/portico-run/portico/modules/tool/function"
	"github.com/portico-run/portico/modules/tool/resource"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/file"
	"github.com/portico-run/portico/modules/toolset/install"
	"github.com/portico-run/portico/modules/toolset/mark"
	"github.com/portico-run/portico/modules/toolset/sealed"
	"github.com/portico-run/portico/modules/toolset/store"
)

// Version is the version of the program; the build sets it.
var Version = "dev" //nolint:gochecknoglobals // set by the linker

// Options are what an App takes from the process it lives in.
type Options struct {
	Config  *configs.Config
	Environ map[string]string
	Logger  *slog.Logger
	// Level is that of the logger, for operators to change; nil if it is fixed.
	Level *slog.LevelVar
	// Connectors are kinds of toolsets besides those of this server.
	Connectors []tool.Connector
	// Functions are tools of the server's own besides those that it has, and in
	// the place of those that have the same name.
	Functions []function.Function
	// Servers says which MCP servers there are; nil for those of the database.
	Servers hub.Directory
	// Wall is the clock of the machine; nil is the system's.
	Wall func() time.Time
}

// App is every module, wired. Open makes one; it answers nothing until Start.
type App struct {
	Options
	Owner string // names this process in leases

	DB           *database.DB
	Objects      objectstore.Store
	Hub          *wake.Hub
	Accounts     *account.Module
	SignIn       *signin.Module
	Credits      *billing.Module
	PTC          *ptc.Module
	Toolsets     *toolset.Module
	Installs     *install.Module
	ToolsetFiles *file.Service
	Inventory    *store.Service
	Connections  *composio.Module
	Runs         *run.Module
	Records      *record.Module
	Outside      *outside.Service
	Nodes        *node.Service
	Bounds       *bound.Limiter
	ending       ending
	Peers        *peer.Service // nil where this process listens for no others
	Leases       *lease.Keeper
	Erasure      *erase.Service
	Tools        *tool.Module
	Approvals    *approval.Module
	Fetch        *fetch.Module
	Knowledge    *knowledge.Module
	Answers      *answer.Module
	Flat         *flat.Module
	Resources    *resource.Resolver
	SDK          *sdkbundle.Module
	Engine       *sandbox.Engine
	// Sandboxes are the nodes that run programs; nil where they run here.
	Sandboxes    *registry.Registry
	claims       *agentsandbox.Nodes // where nodes come from instead; nil where they do not
	Programs     *program.Module
	CodeAPI      *codeapi.Module
	Drive        *drive.Module
	Streams      *stream.Module
	Publisher    *publish.Publisher // nil without Redis
	Agents       *agent.Module
	Dialogues    *dialogue.Service
	OpenAI       *openai.Module
	Interpreters *repl.Module
	Models       *named.Set // nil where none is configured
	MCP          *hub.Hub
	Servers      *mcpserver.Service // what is stored of MCP servers
	Clients      *clients.Module    // this server as an MCP server

	// What users authorize this server for: MCP servers, and the APIs of toolsets.
	Authorizations, Grants *oauth.Service

	API     *httpapi.API
	Metrics *telemetry.Metrics

	watch     *watch
	tracer    *trace.Tracer // nil unless traces are wanted
	egress    *egress.Client
	upstreams *upstream.Caller
	composio  *composio.Connector
	hints     *mcp.Connector
	marks     *mark.Service
	executors tool.Executors
	pricer    *price.Pricer
	// invalid is what is wrong with the toolset files that were loaded.
	invalid atomic.Pointer[[]file.Problem]
	Console *console.Module
	users   *erasure.Service // erases them
	// Retention deletes what is kept no longer.
	Retention *retention.Keeper
	// Holdings compares the database with the object storage.
	Holdings *holdings.Service
	// Sealed changes the key that seals what is stored.
	Sealed *sealed.Service
}

// Open connects to the database and wires the modules. It starts nothing that
// would have to be stopped; Close ends the connection.
func Open(ctx context.Context, o Options) (*App, error) {
	o.Logger = slog.New(httpapi.Traced(o.Logger.Handler()))
	a := &App{Options: o, Owner: ids.New("proc"), ending: ending{asked: make(chan struct{})}, Hub: &wake.Hub{}, egress: egress.New(egress.Config{})}
	var err error
	a.DB, err = database.Open(ctx, database.Config{
		URL: o.Config.Database.URL.Reveal(), Direct: o.Config.Database.DirectURL.Reveal(), MaxConnections: o.Config.Database.MaxConnections, Notify: a.committed, Logger: o.Logger, Wall: o.Wall,
	})
	if err != nil {
		return nil, err
	}
	if err = a.peers(); err == nil {
		err = a.wire(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Close ends what Open began.
func (a *App) Close() error {
	a.egress.Close()
	return a.DB.Close()
}

func (a *App) wire(ctx context.Context) error {
	c := a.Config
	a.observe()
	box, err := secretbox.New(c.Server.EncryptionKey.Reveal(), c.Server.OldEncryptionKeys()...)
	if err != nil {
		return err
	}
	if a.Objects, err = objects(ctx, c.ObjectStorage); err != nil {
		return err
	}
	policy, warnings, err := ptc.Parse(rawPolicy(c))
	if err != nil {
		return fmt.Errorf("the configuration is not valid: %w", err)
	}
	for _, w := range append(c.Warnings, warnings...) {
		a.Logger.Warn("configuration", "warning", w)
	}
	a.PTC = ptc.New(policy)
	a.Credits = billing.New(billing.Deps{DB: a.DB, FreeToolsets: c.Billing.FreeToolsets, Limits: limits(c.Billing)})
	if a.Accounts, err = a.accounts(); err != nil {
		return err
	}
	a.Runs = run.New(run.Deps{DB: a.DB, Owner: a.Owner, Wake: a.Hub})
	if a.SignIn, err = a.signIn(); err != nil {
		return err
	}
	if a.Drive, err = a.files(); err != nil {
		return err
	}
	if err := a.outside(box); err != nil {
		return err
	}
	a.Resources = a.resources()
	if err := a.namedModels(); err != nil {
		return err
	}
	if err := a.callTools(); err != nil {
		return err
	}
	a.SDK = sdkbundle.New(sdkbundle.Deps{Objects: a.Objects, Publish: sdkbundle.NewPublisher(a.definitions, a.Objects).Publish}, location(c.Sandbox.S3Lib))
	a.API = httpapi.New(httpapi.Deps{
		Auth: a.Accounts.Service, Peers: a.forwarder(), Spill: a.spill(), Logger: a.Logger, Origins: c.Server.Origins, BodyLimit: c.Server.BodyLimit, Version: Version,
		Endpoint: c.Server.Endpoint, Observe: a.Metrics.Request, Tracer: a.tracer, Trusted: a.trusted(), Still: a.Accounts.Service.Still, Asked: a.asked,
	})
	a.measure()
	a.Programs = a.programs()
	if a.CodeAPI, err = a.codeAPI(); err != nil {
		return err
	}
	a.Streams = stream.New(stream.Deps{Runs: a.Runs.Service, Sums: a.Runs.Service, Calls: a.Records.Service, Hub: a.Hub, Poll: c.PTC.PollInterval, Woken: func(written time.Time, found bool) { a.watch.woken(a.DB.Now().Sub(written), found) }})
	a.Interpreters = repl.New(repl.Deps{
		Programs: a.Programs.Service, Sandbox: a.Engine, DB: a.DB, Peers: a.places(),
		Settings: repl.Settings{Max: c.Agent.MaxInterpreters, PerUser: c.Agent.MaxInterpretersPerUser, Idle: c.Agent.InterpreterIdle},
	})
	a.Agents, a.Dialogues = a.agents(), a.dialogues()
	a.nodes()
	a.measureLeases()
	a.Console = console.New(console.Deps{API: a.API, Version: Version, Path: a.Config.Console.Place(), Logger: a.Logger})
	a.register(box)
	a.answerPeers()
	return a.publisher()
}

func (a *App) programs() *program.Module {
	c := a.Config
	return program.New(program.Deps{
		Kept: program.Kept{Runs: a.Runs.Service, Records: a.Records.Service, Outside: a.Outside}, DB: a.DB, Sandbox: a.Engine, Logger: a.Logger, Wake: a.Hub,
		Access: program.Access{Policy: a.PTC.Service, Keys: a.Accounts.Service, SDK: a.SDK.Service, Files: a.Drive.Service, Tools: a.Toolsets.Service, Functions: a.Tools.Service, Flat: a.Flat.Service, API: a.API},
		Settings: program.Settings{
			Timeout: c.Sandbox.Timeout, MaxTimeout: c.Sandbox.MaxTimeout, MaxLog: int(2 * c.Sandbox.Output), MaxInput: c.Sandbox.Disk / 2,
		},
	})
}

func (a *App) register(box *secretbox.Box) {
	a.Sealed = sealed.New(sealed.Deps{DB: a.DB, Box: box})
	a.users = a.erasure()
	a.retain()
	a.Clients, a.OpenAI = a.mcpServer(box), a.openAI(box)
	messages := a.anthropic()
	for _, m := range []interface{ Register(api *httpapi.API) }{
		a.Accounts, a.SignIn, a.roster(), a.Credits, a.PTC, a.Toolsets, a.Installs, a.Connections, api.New(a.Servers, a.MCP), connect.New(a.Authorizations, a.Accounts.Service, a.Config.Server.Endpoint), connect.New(a.Grants, a.Accounts.Service, a.Config.Server.Endpoint), a.Runs, a.Records, a.Tools, a.Approvals, a.Flat, a.SDK, a.Programs, a.Clients, a.authServer(box), a.CodeAPI, a.Drive, a.Streams, a.Agents, a.OpenAI, a.models(messages), messages, a.Knowledge, a.Answers, health{a}, limited{a}, admin{a}, metrics{a.Metrics.Handler()}, a.Console,
	} {
		m.Register(a.API)
	}
}

// record wires what keeps the records of calls.
func (a *App) record() {
	c := a.Config
	a.Records = record.New(record.Deps{
		DB: a.DB, Objects: a.Objects, Runs: a.Runs.Service, Wake: a.Hub,
		Settings: record.Settings{
			Owner: a.Owner, Lease: c.Tool.Lease, Calls: ids.Calls{Separator: c.PTC.CallIDSeparator}, OutputCap: int(c.Tool.OutputCap),
		},
	})
	a.Outside = outside.New(outside.Deps{DB: a.DB, Runs: a.Runs.Service, Records: a.Records.Service})
	a.Erasure = erase.New(erase.Deps{DB: a.DB, Objects: a.Objects})
}

func (a *App) tools(functions *function.Registry) *tool.Module {
	c := a.Config
	a.Approvals = approval.New(approval.Deps{
		DB: a.DB, Records: a.Records.Service, Hub: a.Hub, Client: a.egress, Logger: a.Logger,
		Check: func(ctx context.Context, who actor.Actor, key, name string, arguments json.RawMessage) error {
			return a.Tools.Service.CheckArguments(ctx, who, key, name, arguments)
		},
		Settings: approval.Settings{
			Default: approval.Level(c.Approval.Default), Expiry: c.Approval.Expiry, MaxWaiting: c.Approval.MaxPerUser,
			Webhook: c.Approval.Webhook, Secret: c.Approval.WebhookSecret.Reveal(), Console: a.consoleURL(),
		},
	})
	return tool.New(tool.Deps{
		Records: a.Records.Service, Catalogue: a.Toolsets.Service, Policy: a.PTC.Service, Billing: a.Credits.Service,
		Means:     tool.Means{Executors: a.executors, Resources: a.Resources, Functions: functions, Limiter: a.Bounds},
		Approvals: a.Approvals.Service,
		Settings: tool.Settings{
			ResultCap: int(c.Tool.ResponseCap), Timeout: c.Tool.MaxTimeout, MCP: c.Tool.ExecuteMCP, Now: a.DB.Now, Observe: a.watch.called,
			Bounds: tool.Bounds{
				User: bound.Bound{AtOnce: c.Tool.MaxPerUser},
				Key:  bound.Bound{AtOnce: c.Tool.MaxPerKey, PerSecond: c.Tool.RatePerKey.Float()},
				Run:  bound.Bound{AtOnce: c.Tool.MaxPerRun, PerSecond: c.Tool.RatePerRun.Float()},
			},
		},
		Logger: a.Logger,
	})
}

// Variables are what toolset files and files of MCP servers may name: credentials of toolsets, and
// where the bundled upstream is.
func (a *App) Variables() map[string]string {
	vars := map[string]string{"PORTICO_DEMO_URL": demo.URL(a.Config.Demo.Listen), "PORTICO_DEMO_KEY": demo.Key}
	for name, value := range a.Environ {
		if strings.HasPrefix(name, "TOOLSET_") && value != "" {
			vars[name] = value
		}
	}
	return vars
}

// maxCarried is the largest file that goes into a tool or comes out of one, and what
// those have together that go into one call: they are in memory meanwhile.
const maxCarried = 64 << 20

func (a *App) resources() *resource.Resolver {
	c := a.Config
	return resource.New(resource.Deps{
		Files: a.Drive.Service, Client: a.egress, Objects: a.Objects, Limit: min(c.Drive.MaxFile, maxCarried), Together: maxCarried, Endpoint: c.Server.Endpoint, Now: a.DB.Now,
	})
}

func (a *App) files() (*drive.Module, error) {
	c := a.Config
	return drive.New(drive.Deps{
		DB: a.DB, Objects: a.Objects, Canvases: a.Runs.Service, Elsewhere: session.Stored, Keys: serverKeys(c),
		Settings: drive.Settings{
			MaxFile: c.Drive.MaxFile, Quota: c.Drive.Quota, Endpoint: c.Server.Endpoint, LinkLife: time.Duration(c.Drive.PresignExpiry) * time.Second,
		},
		Tables: previews{a},
	})
}

func objects(ctx context.Context, c configs.ObjectStorage) (objectstore.Store, error) {
	if c.Driver == configs.S3Driver {
		return objectstore.NewS3(ctx, objectstore.S3Config{
			Endpoint: c.S3.Endpoint, Region: c.S3.Region, Bucket: c.S3.Bucket,
			AccessKey: c.S3.AccessKey.Reveal(), SecretKey: c.S3.SecretKey.Reveal(), PathStyle: c.S3.PathStyle,
		})
	}
	return objectstore.NewFolder(c.Folder)
}

func location(c configs.S3Lib) sdkbundle.Location {
	return sdkbundle.Location{PathPrefix: c.PathPrefix, Hash: c.Hash}
}

func rawPolicy(all *configs.Config) ptc.Raw {
	c := all.PTC
	return ptc.Raw{
		Enabled: c.Enabled, Mode: c.Mode, Debug: c.Debug, UserAllowlist: c.UserAllowlist, ToolsetAllowlist: c.ToolsetAllowlist,
		ToolsetBlocklist: c.ToolsetBlocklist, Sequential: c.Sequential, RolloutPercent: c.RolloutPercent.String(), RolloutSalt: c.RolloutSalt,
		BreakEven: all.Agent.BreakEven,
	}
}

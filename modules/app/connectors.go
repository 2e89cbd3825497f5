package app

import (
	"context"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/connector/composio"
	"github.com/portico-run/portico/modules/connector/rest"
	"github.com/portico-run/portico/modules/connector/vendors"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/file"
	"github.com/portico-run/portico/modules/toolset/install"
	"github.com/portico-run/portico/modules/toolset/store"
)

// kindsOfToolsets are all that this server has. A new one is one more line.
func (a *App) kindsOfToolsets() ([]tool.Connector, error) {
	c := a.Config
	clients, err := vendors.New(vendors.Deps{
		Upstream: a.upstreams, Timeout: c.Tool.Timeout, Dollars: a.pricer.Dollars, ContentTokens: c.Tool.ContentTokens,
	})
	requests := rest.New(rest.Deps{Upstream: a.upstreams, Pricer: a.pricer, Grants: a.Grants, Timeout: c.Tool.Timeout, MaxTimeout: c.Tool.MaxTimeout})
	return append([]tool.Connector{
		requests,
		rest.OAuth{Connector: requests},
		clients,
		composio.OAuth{Connector: a.composio},
		composio.APIKey{Connector: a.composio},
	}, a.Connectors...), err
}

// stopped is the kind of the topics about upstreams that a process has stopped its
// calls to; their ids are origins.
const stopped = "stopped"

// outside wires what reaches other services.
func (a *App) outside(box *secretbox.Box) error {
	c := a.Config
	a.pricer = price.NewPricer(credits(c.Billing.USDToCredits))
	a.upstreams = upstream.New(upstream.Deps{
		Client: a.egress, ResponseCap: c.Tool.ResponseCap,
		Breaker: upstream.BreakerSettings{Failures: c.Tool.BreakerFailures, Delay: c.Tool.BreakerDelay},
		Observe: a.watch.upstream("tool"), Trace: true,
		Stopped: func(origin string) { a.DB.Tell(wake.Topic(stopped, origin)) },
	})
	a.Hub.Follow(stopped, func(origin string) {
		if origin != "" {
			a.upstreams.Doubt(origin)
		}
	})
	client := composio.NewClient(composio.ClientDeps{
		BaseURL: c.Composio.BaseURL, Version: c.Composio.APIVersion, Key: c.Composio.APIKey.Reveal(), Upstream: a.upstreams,
		Egress: c.Composio.Egress, Timeout: c.Composio.Timeout, CacheLife: c.Composio.Cache,
	})
	a.composio = composio.New(composio.Deps{
		DB: a.DB, Client: client, Pricer: a.pricer, Rates: a.Credits.Service, SharedUser: c.Composio.User, Logger: a.Logger,
	})
	a.Grants = a.authorizations(box, rest.Authorizations(func(ctx context.Context, who actor.Actor, key string) (toolset.Toolset, error) {
		return a.Toolsets.Service.Identify(ctx, who, key)
	}))
	connectors, err := a.kindsOfToolsets()
	if err != nil {
		return err
	}
	a.executors = tool.ExecutorsOf(connectors)
	sources := make([]toolset.Source, len(connectors))
	for i, one := range connectors {
		sources[i] = one
	}
	kinds := toolset.NewKinds(sources...)
	servers, err := a.servers(box)
	if err != nil {
		return err
	}
	a.Toolsets = toolset.New(toolset.Deps{DB: a.DB, Box: box, Kinds: kinds, Servers: servers, ExportServers: c.Tool.ExecuteMCP, Logger: a.Logger, Wake: a.Hub})
	a.Installs = install.New(install.Deps{DB: a.DB, Box: box, Toolsets: a.Toolsets.Service, Kinds: kinds, Details: details{a}})
	a.Inventory = store.New(store.Deps{DB: a.DB, Box: box, Connections: []store.Connections{a.composio, a.Grants}})
	a.ToolsetFiles = file.New(file.Deps{Inventory: a.Inventory, Variables: a.Variables(), Pricer: a.pricer, Kinds: kinds})
	a.Connections = composio.NewModule(a.composio, a.Installs.Service)
	return nil
}

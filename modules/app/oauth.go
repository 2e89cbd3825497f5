package app

import (
	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/authserver"
	"github.com/portico-run/portico/modules/account/oidc"
	"github.com/portico-run/portico/modules/program/mcpserver"
)

// apps are how apps get tokens for this server as an MCP server; no routes where they
// cannot.
type apps struct{ *authserver.Module }

// Register adds the module's routes, if there are any.
func (a apps) Register(api *httpapi.API) {
	if a.Module != nil {
		a.Module.Register(api)
	}
}

// authServer wires the authorization server, or points to another one.
func (a *App) authServer(box *secretbox.Box) apps {
	if !a.letsAppsIn() {
		return apps{}
	}
	return apps{authserver.New(authserver.Deps{
		DB: a.DB, Accounts: a.Accounts.Service, Box: box, Fetch: a.egress, Logger: a.Logger, Settings: a.authSettings(),
	})}
}

// letsAppsIn reports whether apps may get tokens. People let them in at the console.
func (a *App) letsAppsIn() bool {
	c := a.Config
	return c.MCP.Issuer() != "" || c.MCP.OAuth == configs.OAuthOn && c.Console.Place() != ""
}

func (a *App) authSettings() authserver.Settings {
	c := a.Config
	return authserver.Settings{Endpoint: c.Server.Endpoint, Resource: mcpserver.AppPath, Consent: c.Console.Place() + "/authorize", Issuer: c.MCP.Issuer()}
}

// appTokens are the tokens of another authorization server; nil for none.
func (a *App) appTokens() account.AppTokens {
	issuer := a.Config.MCP.Issuer()
	if issuer == "" {
		return nil
	}
	return oidc.NewAccess(issuer, a.Config.Server.Endpoint+mcpserver.AppPath, a.DB.Now)
}

package composio

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/toolset"
)

// The status of a connection.
const (
	connected  = "active"
	connecting = "connecting"
	revoked    = "revoked"
)

// Authorization is how a user goes on to connect an account.
type Authorization struct {
	RedirectURL         string `json:"redirectUrl" doc:"Where the user goes"`
	ConnectionRequestID string `json:"connectionRequestId"`
	App                 string `json:"app"`
}

// ConnectionStatus is whether a user's account is connected.
type ConnectionStatus struct {
	Status             string  `json:"status" enum:"active,revoked"`
	ConnectedAccountID *string `json:"connectedAccountId,omitempty"`
	IntegrationID      string  `json:"integrationId"`
}

// ErrNotConnected is a connection that is not there.
var ErrNotConnected = errs.New(errs.NotFound, "There is no connection to this app.").Do("POST /v1/tool/composio/{app}/authorize begins one.")

// app finds the toolset that an app's connections are for.
func (s *Service) app(ctx context.Context, key string) (toolset.Listing, error) {
	if !s.connector.deps.Client.Connected() {
		return toolset.Listing{}, errOff(key)
	}
	listing, err := s.toolsets.Listing(ctx, key)
	if err == nil && listing.Type != typeOAuth {
		err = errs.Newf(errs.Invalid, "Toolset %s needs no connection of the user's.", key)
	}
	return listing, err
}

// Authorize begins the connection of the actor's account for an app. Nothing
// changes until the user has agreed; Connection notices that.
func (s *Service) Authorize(ctx context.Context, a actor.Actor, key, callback string) (Authorization, error) {
	if _, err := s.app(ctx, key); err != nil {
		return Authorization{}, err
	}
	link, err := s.connector.deps.Client.Link(ctx, a.UID, Toolkit(key), callback)
	if err != nil {
		return Authorization{}, providerError(err)
	}
	if u, err := url.Parse(link.RedirectURL); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return Authorization{}, errs.New(errs.Unavailable, "Composio gave no address where the account can be connected.").
			Do("Try again; if it stays, check the app's authentication at Composio.")
	}
	err = s.connector.deps.DB.InTx(ctx, func(tx database.Tx) error { return s.connector.audit(tx, a, "connection.authorize", key, nil) })
	return Authorization{RedirectURL: link.RedirectURL, ConnectionRequestID: link.AccountID, App: key}, err
}

// providerError is a refusal of the provider in words for the caller.
func providerError(err error) error {
	if f, ok := errors.AsType[*upstream.Failure](err); ok {
		return errs.New(errs.Unavailable, "Composio: "+f.Message).Do("Try again later.").With(err)
	}
	return err
}

// Connection reports whether the actor's account for an app is connected. An
// account that was connected at the provider is taken over, with its toolset.
func (s *Service) Connection(ctx context.Context, a actor.Actor, key string) (ConnectionStatus, error) {
	listing, err := s.app(ctx, key)
	if err != nil {
		return ConnectionStatus{}, err
	}
	c := s.connector
	account, err := c.rows.connection(c.deps.DB.Read(ctx), a.UID, key)
	if err != nil {
		return ConnectionStatus{}, err
	}
	if account != "" {
		return ConnectionStatus{Status: connected, ConnectedAccountID: &account, IntegrationID: key}, nil
	}
	found, err := c.deps.Client.ActiveAccount(ctx, a.UID, Toolkit(key))
	if err != nil || found == nil {
		return ConnectionStatus{Status: revoked, IntegrationID: key}, providerError(err)
	}
	err = c.deps.DB.InTx(ctx, func(tx database.Tx) error {
		now := c.deps.Now()
		metadata, err := json.Marshal(connectionData{AuthConfigID: found.AuthConfig.ID, CreatedAt: now.Format(time.RFC3339)})
		if err != nil {
			return err
		}
		row := connectionRow{UID: a.UID, IntegrationID: key, ConnectedAccountID: found.ID, Status: connected, Metadata: new(string(metadata)), CreatedAt: now, UpdatedAt: now}
		if err := c.rows.saveConnection(tx, row); err != nil {
			return err
		}
		if err := s.toolsets.Grant(tx, a.UID, listing, authOAuth); err != nil {
			return err
		}
		return c.audit(tx, a, "connection.connect", key, map[string]string{"account": found.ID})
	})
	return ConnectionStatus{Status: connected, ConnectedAccountID: &found.ID, IntegrationID: key}, err
}

// Disconnect ends the actor's connection to an app, and with it the use of its
// toolset. At the provider the account is ended if the provider can be reached.
func (s *Service) Disconnect(ctx context.Context, a actor.Actor, key string) error {
	c := s.connector
	account, err := c.rows.anyConnection(c.deps.DB.Read(ctx), a.UID, key)
	if err != nil {
		return err
	}
	err = c.deps.DB.InTx(ctx, func(tx database.Tx) error {
		if err := c.rows.deleteConnection(tx, a.UID, key); err != nil {
			return err
		}
		if err := s.toolsets.Revoke(tx, a.UID, key, authOAuth); err != nil {
			return err
		}
		return c.audit(tx, a, "connection.revoke", key, map[string]string{"account": account})
	})
	if err != nil || account == "" || !c.deps.Client.Connected() {
		return err
	}
	if err := c.deps.Client.Disconnect(ctx, account); err != nil {
		c.deps.Logger.WarnContext(ctx, "an account is not ended at the provider", "toolset", key, "error", err)
	}
	return nil
}

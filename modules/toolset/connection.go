package toolset

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/composio"
)

// Accounts are the accounts of users at other services.
type Accounts interface {
	ActiveAccount(ctx context.Context, userID, toolkit string) (*composio.Account, error)
	Link(ctx context.Context, userID, toolkit, callback string) (composio.Link, error)
	Connect(ctx context.Context, userID, toolkit, key string) (string, error)
	Disconnect(ctx context.Context, accountID string) error
}

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
func (s *Service) app(ctx context.Context, key string) (inventoryRow, error) {
	if !s.Provider.Connected() {
		return inventoryRow{}, errNoProvider(key)
	}
	item, err := s.rows.inventory(s.DB.Read(ctx), key)
	if err == nil && item.Type != TypeOAuth {
		err = errs.Newf(errs.Invalid, "Toolset %s needs no connection of the user's.", key)
	}
	return item, err
}

// Authorize begins the connection of the actor's account for an app. Nothing
// changes until the user has agreed; Connection notices that.
func (s *Service) Authorize(ctx context.Context, a actor.Actor, key, callback string) (Authorization, error) {
	if _, err := s.app(ctx, key); err != nil {
		return Authorization{}, err
	}
	link, err := s.Accounts.Link(ctx, a.UID, composio.Toolkit(key), callback)
	if err != nil {
		return Authorization{}, providerError(err)
	}
	if u, err := url.Parse(link.RedirectURL); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return Authorization{}, errs.New(errs.Unavailable, "Composio gave no address where the account can be connected.").
			Do("Try again; if it stays, check the app's authentication at Composio.")
	}
	err = s.DB.InTx(ctx, func(tx database.Tx) error { return s.audit(tx, a, "connection.authorize", key, nil) })
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
	item, err := s.app(ctx, key)
	if err != nil {
		return ConnectionStatus{}, err
	}
	account, err := s.rows.connection(s.DB.Read(ctx), a.UID, key)
	if err != nil {
		return ConnectionStatus{}, err
	}
	if account != "" {
		return ConnectionStatus{Status: connected, ConnectedAccountID: &account, IntegrationID: key}, nil
	}
	found, err := s.Accounts.ActiveAccount(ctx, a.UID, composio.Toolkit(key))
	if err != nil || found == nil {
		return ConnectionStatus{Status: revoked, IntegrationID: key}, providerError(err)
	}
	err = s.DB.InTx(ctx, func(tx database.Tx) error {
		now := s.Now()
		metadata, err := json.Marshal(connectionData{AuthConfigID: found.AuthConfig.ID, CreatedAt: now.Format(time.RFC3339)})
		if err != nil {
			return err
		}
		row := connectionRow{UID: a.UID, IntegrationID: key, ConnectedAccountID: found.ID, Status: connected, Metadata: optional(string(metadata)), CreatedAt: now, UpdatedAt: now}
		if err := s.rows.saveConnection(tx, row); err != nil {
			return err
		}
		if err := s.installConnected(tx, a.UID, item); err != nil {
			return err
		}
		return s.audit(tx, a, "connection.connect", key, map[string]string{"account": found.ID})
	})
	return ConnectionStatus{Status: connected, ConnectedAccountID: &found.ID, IntegrationID: key}, err
}

// Disconnect ends the actor's connection to an app, and with it the use of its
// toolset. At the provider the account is ended if the provider can be reached.
func (s *Service) Disconnect(ctx context.Context, a actor.Actor, key string) error {
	account, err := s.rows.anyConnection(s.DB.Read(ctx), a.UID, key)
	if err != nil {
		return err
	}
	err = s.DB.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.deleteConnection(tx, a.UID, key); err != nil {
			return err
		}
		if err := s.rows.uninstall(tx, a.UID, key, AuthOAuth, s.Now()); err != nil {
			return err
		}
		return s.audit(tx, a, "connection.revoke", key, map[string]string{"account": account})
	})
	if err != nil || account == "" || !s.Provider.Connected() {
		return err
	}
	if err := s.Accounts.Disconnect(ctx, account); err != nil {
		s.Logger.WarnContext(ctx, "an account is not ended at the provider", "toolset", key, "error", err)
	}
	return nil
}

// Lost marks a connection that the provider no longer takes, so that the next
// call says what to do. It is for executors; uid is who the caller is there.
func (s *Service) Lost(ctx context.Context, uid, key string) error {
	return s.DB.InTx(ctx, func(tx database.Tx) error { return s.rows.loseConnection(tx, uid, key, s.Now()) })
}

// installConnected gives a user the toolset of a connection, or again the one
// that the user had, unless it is everybody's.
func (s *Service) installConnected(tx database.Tx, uid string, item inventoryRow) error {
	global, err := s.rows.global(tx.Handle, item.Key)
	switch {
	case err == nil && global.Enabled:
		return nil
	case err != nil && !errors.Is(err, database.ErrNotFound):
		return err
	}
	now, authType := s.Now(), AuthOAuth
	before, err := s.rows.own(tx.Handle, uid, item.Key)
	if errors.Is(err, database.ErrNotFound) {
		return s.rows.insertToolset(tx, toolsetRow{
			ToolsetID: ids.New(ids.Toolset), UID: &uid, Name: item.Name, Key: item.Key, AuthType: &authType, Enabled: true, CreatedAt: now, UpdatedAt: now,
		})
	}
	if err != nil {
		return err
	}
	return s.rows.updateOwn(tx, uid, before.ToolsetID, map[string]any{
		"auth_type": authType, "auth_data": nil, "enabled": true, "uninstalled": false, "updated_at": now,
	})
}

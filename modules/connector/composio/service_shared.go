package composio

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/toolset"
)

// How long one process may take to connect a shared account before another one
// tries, and how often the others look.
const (
	connectingTime = time.Minute
	connectingLook = 200 * time.Millisecond
)

// sharedAccount is the id of the account behind an API key, which is connected
// when it is first needed. One caller claims the row of the connection and
// connects; all others, in every process, poll until it is active. An account
// that the provider has already is taken over; one that was connected with
// another key is ended.
func (c *Connector) sharedAccount(ctx context.Context, t toolset.Toolset) (string, error) {
	for {
		row, err := c.rows.anyConnectionRow(c.deps.DB.Read(ctx), t.AccountUser, t.Key)
		if err != nil && !errors.Is(err, database.ErrNotFound) {
			return "", err
		}
		stale := ""
		if made := keyOf(row); made != "" && made != t.Credential.Fingerprint() {
			stale = row.ConnectedAccountID
		}
		if row.Status == connected && row.ConnectedAccountID != "" && stale == "" {
			return row.ConnectedAccountID, nil
		}
		mine, err := c.claim(ctx, t, stale)
		if err != nil {
			return "", err
		}
		if mine {
			return c.connectShared(ctx, t, stale)
		}
		if err := c.deps.Wait(ctx, connectingLook); err != nil {
			return "", err
		}
	}
}

// claim reports whether the caller is the one who connects.
func (c *Connector) claim(ctx context.Context, t toolset.Toolset, stale string) (mine bool, err error) {
	err = c.deps.DB.InTx(ctx, func(tx database.Tx) (err error) {
		now := c.deps.Now()
		if stale != "" {
			if err := c.rows.loseConnection(tx, t.AccountUser, t.Key, now); err != nil {
				return err
			}
		}
		mine, err = c.rows.claimConnection(tx, connectionRow{
			UID: t.AccountUser, IntegrationID: t.Key, Status: connecting, CreatedAt: now, UpdatedAt: now,
		}, now.Add(-connectingTime))
		return err
	})
	return mine, err
}

// connectionData is the metadata of a connection.
type connectionData struct {
	AuthConfigID string `json:"authConfigId,omitempty"`
	CreatedAt    string `json:"createdAt,omitempty"`
	// Key is the fingerprint of the API key that it was made with.
	Key string `json:"key,omitempty"`
}

// keyOf is the key that a connection was made with; empty where nobody wrote it.
func keyOf(row connectionRow) string {
	var d connectionData
	if row.Metadata == nil || json.Unmarshal([]byte(*row.Metadata), &d) != nil {
		return ""
	}
	return d.Key
}

func (c *Connector) connectShared(ctx context.Context, t toolset.Toolset, stale string) (string, error) {
	if stale != "" {
		if err := c.deps.Client.Disconnect(ctx, stale); err != nil {
			c.deps.Logger.WarnContext(ctx, "an account with an old key is not ended at the provider", "toolset", t.Key, "error", err)
		}
	}
	account, err := c.shared(ctx, t, stale)
	// The caller may be gone: what was connected is recorded anyway.
	ctx = context.WithoutCancel(ctx)
	failure := c.deps.DB.InTx(ctx, func(tx database.Tx) error {
		if err != nil {
			return c.rows.deleteConnection(tx, t.AccountUser, t.Key)
		}
		data, err := json.Marshal(connectionData{CreatedAt: c.deps.Now().Format(time.RFC3339), Key: t.Credential.Fingerprint()})
		if err != nil {
			return err
		}
		if err := c.rows.setConnected(tx, connectionRow{
			UID: t.AccountUser, IntegrationID: t.Key, ConnectedAccountID: account, Metadata: new(string(data)), UpdatedAt: c.deps.Now(),
		}); err != nil {
			return err
		}
		return c.audit(tx, actor.Actor{UID: t.AccountUser}, "connection.connect", t.Key, map[string]string{"account": account})
	})
	return account, errors.Join(err, failure)
}

func (c *Connector) shared(ctx context.Context, t toolset.Toolset, stale string) (string, error) {
	toolkit := Toolkit(t.Key)
	found, err := c.deps.Client.ActiveAccount(ctx, t.AccountUser, toolkit)
	if err != nil {
		return "", err
	}
	if found != nil && found.ID != stale {
		return found.ID, nil
	}
	if t.Credential.None() {
		return "", errs.Newf(errs.Forbidden, "Toolset %s has no API key.", t.Key).Do("The operator names one as the credential of the toolset.")
	}
	credential, err := t.Credential.Open()
	if err != nil {
		return "", err
	}
	return c.deps.Client.Connect(ctx, t.AccountUser, toolkit, strings.TrimSpace(credential.Value.Reveal()))
}

// Lost marks a connection that Composio no longer takes, so that the next call
// says what to do. uid is who the caller is there.
func (c *Connector) Lost(ctx context.Context, uid, key string) error {
	return c.deps.DB.InTx(ctx, func(tx database.Tx) error { return c.rows.loseConnection(tx, uid, key, c.deps.Now()) })
}

// audit keeps who connected an account, or ended that.
func (c *Connector) audit(tx database.Tx, a actor.Actor, action, key string, detail map[string]string) error {
	return audit.Write(tx, audit.Change{By: a, Action: action, Subject: key, Detail: detail}, c.deps.Now())
}

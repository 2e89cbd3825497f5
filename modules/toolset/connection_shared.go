package toolset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/composio"
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
func (s *Service) sharedAccount(ctx context.Context, t Toolset) (string, error) {
	for {
		row, err := s.rows.anyConnectionRow(s.DB.Read(ctx), t.ProviderUser, t.Key)
		if err != nil && !errors.Is(err, database.ErrNotFound) {
			return "", err
		}
		stale := ""
		if made := keyOf(row); made != "" && made != fingerprint(t.credential) {
			stale = row.ConnectedAccountID
		}
		if row.Status == connected && row.ConnectedAccountID != "" && stale == "" {
			return row.ConnectedAccountID, nil
		}
		mine, err := s.claim(ctx, t, stale)
		if err != nil {
			return "", err
		}
		if mine {
			return s.connectShared(ctx, t, stale)
		}
		if err := s.Wait(ctx, connectingLook); err != nil {
			return "", err
		}
	}
}

// claim reports whether the caller is the one who connects.
func (s *Service) claim(ctx context.Context, t Toolset, stale string) (mine bool, err error) {
	err = s.DB.InTx(ctx, func(tx database.Tx) (err error) {
		now := s.Now()
		if stale != "" {
			if err := s.rows.loseConnection(tx, t.ProviderUser, t.Key, now); err != nil {
				return err
			}
		}
		mine, err = s.rows.claimConnection(tx, connectionRow{
			UID: t.ProviderUser, IntegrationID: t.Key, Status: connecting, CreatedAt: now, UpdatedAt: now,
		}, now.Add(-connectingTime))
		return err
	})
	return mine, err
}

// fingerprint tells credentials apart, as they are sealed.
func fingerprint(sealed string) string {
	sum := sha256.Sum256([]byte(sealed))
	return hex.EncodeToString(sum[:8])
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

func (s *Service) connectShared(ctx context.Context, t Toolset, stale string) (string, error) {
	if stale != "" {
		if err := s.Accounts.Disconnect(ctx, stale); err != nil {
			s.Logger.WarnContext(ctx, "an account with an old key is not ended at the provider", "toolset", t.Key, "error", err)
		}
	}
	account, err := s.shared(ctx, t, stale)
	// The caller may be gone: what was connected is recorded anyway.
	ctx = context.WithoutCancel(ctx)
	failure := s.DB.InTx(ctx, func(tx database.Tx) error {
		if err != nil {
			return s.rows.deleteConnection(tx, t.ProviderUser, t.Key)
		}
		data, err := json.Marshal(connectionData{CreatedAt: s.Now().Format(time.RFC3339), Key: fingerprint(t.credential)})
		if err != nil {
			return err
		}
		if err := s.rows.setConnected(tx, t.ProviderUser, t.Key, account, string(data), s.Now()); err != nil {
			return err
		}
		return s.audit(tx, actor.Actor{UID: t.ProviderUser}, "connection.connect", t.Key, map[string]string{"account": account})
	})
	return account, errors.Join(err, failure)
}

func (s *Service) shared(ctx context.Context, t Toolset, stale string) (string, error) {
	toolkit := composio.Toolkit(t.Key)
	found, err := s.Accounts.ActiveAccount(ctx, t.ProviderUser, toolkit)
	if err != nil {
		return "", err
	}
	if found != nil && found.ID != stale {
		return found.ID, nil
	}
	if t.credential == "" {
		return "", errs.Newf(errs.Forbidden, "Toolset %s has no API key.", t.Key).Do("The operator names one as the credential of the toolset.")
	}
	opened, err := s.Box.Open(t.credential)
	if err != nil {
		return "", broken(t.Key, fmt.Errorf("credential: %w", err))
	}
	c, err := parseCredential(opened)
	if err != nil {
		return "", broken(t.Key, fmt.Errorf("credential: %w", err))
	}
	return s.Accounts.Connect(ctx, t.ProviderUser, toolkit, strings.TrimSpace(c.Value.Reveal()))
}

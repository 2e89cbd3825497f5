package store

import (
	"context"
	"errors"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/toolset"
)

// ErrOtherKey is the refusal to change toolsets with an encryption key with
// which nothing that is stored can be opened.
var ErrOtherKey = errs.New(errs.Conflict, "The stored credentials were sealed with another ENCRYPTION_KEY than this command has.").
	Do("Set ENCRYPTION_KEY as the server has it, or run the command where the server's .env is.")

// Holdings are what users have of a toolset that all may use.
type Holdings struct {
	Installed int64 // own toolsets of users that have its key
	Connected int64 // accounts at the provider
}

// Holdings counts what users have of a toolset. It is for operators.
func (s *Service) Holdings(ctx context.Context, key string) (Holdings, error) {
	h := s.db.Read(ctx)
	row, err := s.rows.AnyInventory(h, key)
	if errors.Is(err, database.ErrNotFound) || err == nil && row.DeletedAt != nil {
		return Holdings{}, toolset.Missing(key)
	}
	if err != nil {
		return Holdings{}, err
	}
	var held Holdings
	if held.Installed, err = s.rows.CountInstalled(h, key); err != nil {
		return held, err
	}
	for _, c := range s.connections {
		n, err := c.Held(h, key)
		if err != nil {
			return held, err
		}
		held.Connected += n
	}
	return held, nil
}

// Deletable refuses, with a Conflict, to delete a toolset that is part of the
// server.
func Deletable(key string) error {
	if slices.Contains(ptc.Builtins(), key) {
		return errs.Newf(errs.Conflict, "Toolset %s is part of the server and cannot be deleted.", key)
	}
	return nil
}

// Delete takes a toolset away from everybody, with what users have of it and
// with its credentials. Records of its calls stay. Accounts at a provider stay
// there. It is for operators; loading a file with the toolset brings it back.
func (s *Service) Delete(ctx context.Context, key string) error {
	if err := Deletable(key); err != nil {
		return err
	}
	now := s.now()
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.DeleteInventory(tx, key, now); err != nil {
			return err
		}
		if err := s.rows.DeleteToolsets(tx, key, now); err != nil {
			return err
		}
		if err := s.rows.DeleteMarks(tx, key); err != nil {
			return err
		}
		for _, c := range s.connections {
			if err := c.Forget(tx, key, now); err != nil {
				return err
			}
		}
		return audit.Write(tx, audit.Change{By: actor.Actor{UID: audit.Operator}, Action: "toolset.delete", Subject: key}, now)
	})
}

// CheckKey returns ErrOtherKey where the credentials that are stored were
// sealed with another key than the service's. One that opens is enough: others
// may be damaged, which their toolsets say.
func (s *Service) CheckKey(ctx context.Context) error {
	sealed, err := s.rows.Sealed(s.db.Read(ctx))
	if err != nil || len(sealed) == 0 {
		return err
	}
	for _, text := range sealed {
		if _, err = s.box.Open(text); err == nil {
			return nil
		}
	}
	return ErrOtherKey.With(err)
}

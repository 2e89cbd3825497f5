package server

import (
	"context"
	"encoding/json"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/tenant"
)

// add stores a new server of an owner; the empty one is everybody.
func (s *Service) add(ctx context.Context, by actor.Actor, owner string, spec Spec, source string) error {
	row, err := s.fresher(ctx, owner, spec, source)
	if err != nil {
		return err
	}
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		if owner != everybody {
			if err := s.room(tx, owner); err != nil {
				return err
			}
		}
		if err := s.rows.removeDeleted(tx, owner, spec.Name); err != nil {
			return err
		}
		if err := s.rows.insert(tx, &row); err != nil {
			return err
		}
		return s.audit(tx, by, "mcp.add", spec)
	})
	if database.IsDuplicate(err) {
		return errs.Newf(errs.Conflict, "There is an MCP server %s already.", spec.Name).Do("Change it, or choose another name.")
	}
	return err
}

// fresher checks a new server and makes its row.
func (s *Service) fresher(ctx context.Context, owner string, spec Spec, source string) (serverRow, error) {
	if err := spec.check(); err != nil {
		return serverRow{}, err
	}
	if owner == everybody {
		// For all users a name has one meaning; one user's server may hide a toolset.
		taken, err := s.taken(ctx, spec.Name)
		if err != nil {
			return serverRow{}, err
		}
		if taken {
			return serverRow{}, errs.Newf(errs.Conflict, "There is a toolset %s.", spec.Name).Do("Choose another name for the server.")
		}
	}
	row, err := s.rowOf(spec)
	row.UID, row.IsGlobal, row.Version, row.Source = database.Optional(owner), owner == everybody, ids.New("mv"), source
	row.CreatedAt, row.UpdatedAt = s.now(), s.now()
	return row, err
}

// room refuses one server too many. Servers of one user are added one after the
// other.
func (s *Service) room(tx database.Tx, owner string) error {
	if err := tenant.LockEnabled(tx, owner); err != nil {
		return err
	}
	n, err := s.rows.count(tx.Handle, owner)
	if err == nil && n >= int64(s.settings.PerUser) {
		err = errs.Newf(errs.Conflict, "A user has at most %d MCP servers.", s.settings.PerUser).Do("Delete one that is not needed.")
	}
	return err
}

// change writes new settings of a server. What does not concern connections, such
// as prices, leaves open ones alone.
func (s *Service) change(ctx context.Context, by actor.Actor, row serverRow, spec Spec, source string) error {
	if err := spec.check(); err != nil {
		return err
	}
	after, err := s.rowOf(spec)
	if err != nil {
		return err
	}
	columns := map[string]any{
		"type": after.Type, "url": after.URL, "command": after.Command, "args": after.Args, "env": after.Env, "headers": after.Headers,
		"config": after.Config, "client": after.Client, "prices": after.Prices, "enabled": after.Enabled, "source": source,
		"version": ids.New("mv"), "updated_at": s.now(),
	}
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.update(tx, row, columns); err != nil {
			return err
		}
		return s.audit(tx, by, "mcp.change", spec)
	})
}

func (s *Service) remove(ctx context.Context, by actor.Actor, owner, name string) error {
	row, err := s.rows.owned(s.db.Read(ctx), owner, name)
	if err != nil {
		return err
	}
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.remove(tx, row); err != nil {
			return err
		}
		return s.audit(tx, by, "mcp.remove", Spec{Name: name})
	})
}

// audit keeps who changed a server.
func (s *Service) audit(tx database.Tx, by actor.Actor, action string, spec Spec) error {
	detail := map[string]string{}
	if spec.Transport != "" {
		detail["transport"] = string(spec.Transport)
	}
	return audit.Write(tx, audit.Change{By: by, Action: action, Subject: spec.Name, Detail: detail}, s.now())
}

// seal is the sealed JSON of a value; nil for an empty object.
func (s *Service) seal(values map[string]string) (*string, error) {
	if len(values) == 0 {
		return nil, nil //nolint:nilnil // no text is stored as none
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	return new(s.box.Seal(text)), nil
}

package toolset

import (
	"context"
	"errors"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Identify says what a key means to the caller. The first of these counts: a
// builtin tool, the caller's own MCP server of that name, the caller's own
// toolset, the one of everybody, everybody's MCP server of that name.
func (s *Service) Identify(ctx context.Context, a actor.Actor, key string) (Toolset, error) {
	t, err := s.identify(ctx, a, key)
	s.Report(ctx, err)
	return t, err
}

// Report logs why a toolset is broken, which callers are only told that it is,
// and reports whether that is what the error says.
func (s *Service) Report(ctx context.Context, err error) bool {
	cause, ok := errors.AsType[unreadable](err)
	if ok {
		s.logger.ErrorContext(ctx, "a stored toolset cannot be read", "toolset", cause.key, "error", cause)
	}
	return ok
}

func (s *Service) identify(ctx context.Context, a actor.Actor, key string) (Toolset, error) {
	if ptc.IsBuiltin(key) {
		return Toolset{Key: key, Name: key, Kind: Builtin, Unsupported: "builtin tool execution is not supported."}, nil
	}
	row, err := s.facts.usable.Get(ctx, meaning{a.UID, key}, func(ctx context.Context) (rows.Usable, error) {
		return s.rows.Usable(s.db.Read(ctx), a.UID, key)
	})
	if errs.CodeOf(err) == errs.ToolsetMissing {
		own, failure := s.rows.OwnMCP(s.db.Read(ctx), a.UID, key)
		switch {
		case failure != nil:
			return Toolset{}, failure
		case own:
			return s.server(ctx, a, key)
		case s.servers != nil: // everybody's, perhaps
			if t, failure := s.server(ctx, a, key); errs.CodeOf(failure) != errs.ToolsetMissing {
				return t, failure
			}
		}
	}
	if err != nil {
		return Toolset{}, err
	}
	if row.MCP {
		return s.server(ctx, a, key)
	}
	e := Entry{
		Toolset: Toolset{Key: key, Name: row.Name, ToolsetID: row.ToolsetID, Global: row.IsGlobal, Approval: row.Approval},
		service: s, authData: row.AuthData, config: row.Config, identified: true,
	}
	if row.InventoryUpdated != nil {
		e.Updated = *row.InventoryUpdated
	}
	source, ok := s.kinds.Installed(database.Text(row.AuthType), key)
	if !ok { // of a kind that this server has no more
		e.Toolset.Kind = Kind(database.Text(row.AuthType))
		return e.Toolset, nil
	}
	e.Toolset.Kind = source.Kind
	return source.Resolve(ctx, a, e)
}

// entryOf is an installed toolset as its Source sees it.
func (s *Service) entryOf(r rows.Toolset, kind Kind) Entry {
	return Entry{
		Toolset: Toolset{Key: r.Key, Name: r.Name, ToolsetID: r.ToolsetID, Global: r.IsGlobal, Kind: kind},
		service: s, authData: r.AuthData, config: r.Config,
	}
}

// Offer is a toolset of the inventory as its Source sees it.
func (s *Service) Offer(r rows.Inventory, kind Kind) Entry {
	listing := listingOf(r)
	return Entry{Toolset: Toolset{Key: r.Key, Name: r.Name, Kind: kind}, Updated: r.UpdatedAt, service: s, listing: &listing}
}

// Method finds a method of an identified toolset, and what its upstream wants
// to see: the user's own credential if the toolset is the user's, the
// operator's otherwise.
func (s *Service) Method(ctx context.Context, _ actor.Actor, t Toolset, name string) (Method, Credential, error) {
	if t.Kind == MCP && s.servers != nil {
		return s.servers.Method(ctx, t, name)
	}
	source, ok := s.kinds.first(func(one Traits) bool { return one.Kind == t.Kind })
	if !ok {
		return Method{}, Credential{}, NoMethod(t.Key, name, "none")
	}
	m, c, err := source.Method(ctx, t, name)
	s.Report(ctx, err)
	return m, c, err
}

// Listing is what is known of a toolset of the inventory.
func (s *Service) Listing(ctx context.Context, key string) (Listing, error) {
	return Entry{Toolset: Toolset{Key: key}, service: s}.Listing(ctx)
}

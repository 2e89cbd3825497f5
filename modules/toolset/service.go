package toolset

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/ptc"
)

// Values of toolsets.auth_type.
const (
	AuthOAuth       = "oauth"
	AuthExternalKey = "external_apikey"
	AuthConfigBased = "config_based"
	AuthCredentials = "credentials"
)

// Identify says what a key means to the caller. The first of these counts: a
// builtin tool, the caller's own MCP server of that name, the caller's own
// toolset, the one of everybody.
func (s *Service) Identify(ctx context.Context, a actor.Actor, key string) (Toolset, error) {
	t, err := s.identify(ctx, a, key)
	s.report(ctx, err)
	return t, err
}

// report logs why a toolset is broken: callers are only told that it is.
func (s *Service) report(ctx context.Context, err error) {
	if cause, ok := errors.AsType[unreadable](err); ok {
		s.Logger.ErrorContext(ctx, "a stored toolset cannot be read", "toolset", cause.key, "error", cause)
	}
}

func (s *Service) identify(ctx context.Context, a actor.Actor, key string) (Toolset, error) {
	if ptc.IsBuiltin(key) {
		return Toolset{Key: key, Name: key, Kind: Builtin}, nil
	}
	h := s.DB.Read(ctx)
	row, err := s.rows.usable(h, a.UID, key)
	if errs.CodeOf(err) == errs.ToolsetMissing {
		own, failure := s.rows.ownMCP(h, a.UID, key)
		switch {
		case failure != nil:
			return Toolset{}, failure
		case own:
			return Toolset{Key: key, Name: key, Kind: MCP}, nil
		}
	}
	if err != nil {
		return Toolset{}, err
	}
	if row.MCP {
		return Toolset{Key: key, Name: key, Kind: MCP}, nil
	}
	t := Toolset{Key: key, Name: row.Name, ToolsetID: row.ToolsetID, Global: row.IsGlobal, Kind: s.kindOf(deref(row.AuthType), key)}
	switch t.Kind {
	case ComposioOAuth, ComposioAPIKey:
		return s.provided(ctx, h, a.UID, t, row)
	case ConfigBased:
		return s.configured(h, t, row)
	case LegacySDK:
		return s.coded(h, t, row)
	}
	return t, nil
}

// kindOf is the kind of a toolset by its row, and by whether this server has a
// client for its key: docs/wire/refly.md#kinds-of-toolsets.
func (s *Service) kindOf(authType, key string) Kind {
	_, coded := s.legacy[key]
	switch {
	case authType == AuthOAuth:
		return ComposioOAuth
	case authType == AuthExternalKey:
		return ComposioAPIKey
	case coded:
		return LegacySDK
	}
	return ConfigBased
}

// configured adds what the inventory says about a toolset.
func (s *Service) configured(h database.Handle, t Toolset, row usableRow) (Toolset, error) {
	if row.InventoryUpdated == nil {
		return t, missing(t.Key)
	}
	p, ok := s.cached(t.Key, *row.InventoryUpdated)
	if !ok {
		item, err := s.rows.inventory(h, t.Key)
		if err != nil {
			return t, err
		}
		if p, err = s.parse(h, item); err != nil {
			return t, err
		}
	}
	t.Domain, t.Egress, t.Prices, t.methods = p.domain, p.egress, p.prices, p.methods
	t.credential = row.credential(p.credential)
	return t, nil
}

// parsed is what the text columns of an inventory row and its methods mean.
type parsed struct {
	updated    time.Time
	domain     string
	credential string // sealed
	methods    []Method
	prices     price.List
	egress     []netip.Prefix
}

// cached returns what was read out of an inventory row, unless the row has
// changed since.
func (s *Service) cached(key string, updated time.Time) (parsed, bool) {
	s.parsed.mu.Lock()
	defer s.parsed.mu.Unlock()
	p, ok := s.parsed.entries[key]
	return p, ok && p.updated.Equal(updated)
}

// parse reads an inventory row, once for each of its states: whoever changes
// a method changes updated_at of its inventory row in the same transaction.
func (s *Service) parse(h database.Handle, item inventoryRow) (parsed, error) {
	if p, ok := s.cached(item.Key, item.UpdatedAt); ok {
		return p, nil
	}
	p := parsed{updated: item.UpdatedAt, domain: deref(item.Domain), credential: deref(item.APIKey)}
	var err error
	if p.methods, err = s.rows.methods(h, item.Key); err != nil {
		return p, err
	}
	if err := s.rows.withFormulas(h, item.Key, p.methods); err != nil {
		return p, err
	}
	if p.egress, err = item.egress(); err != nil {
		return p, err
	}
	if p.prices, err = s.Pricer.ParsePrices(deref(item.CreditBilling), Priced(p.methods)); err != nil {
		return p, broken(item.Key, fmt.Errorf("prices: %w", err))
	}
	s.parsed.mu.Lock()
	defer s.parsed.mu.Unlock()
	s.parsed.entries[item.Key] = p
	return p, nil
}

// Priced picks those fields of methods that prices depend on.
func Priced(methods []Method) []price.Method {
	out := make([]price.Method, len(methods))
	for i, m := range methods {
		out[i] = price.Method{Name: m.Name, Request: m.Request, Response: m.Response, Rules: m.Rules, TokenPricing: m.TokenPricing}
	}
	return out
}

// Method finds a method of an identified toolset, and what its upstream wants
// to see: the user's own credential if the toolset is the user's, the
// operator's otherwise.
func (s *Service) Method(ctx context.Context, _ actor.Actor, t Toolset, name string) (Method, Credential, error) {
	m, c, err := s.method(ctx, t, name)
	s.report(ctx, err)
	return m, c, err
}

func (s *Service) method(ctx context.Context, t Toolset, name string) (Method, Credential, error) {
	if t.Kind == ComposioOAuth || t.Kind == ComposioAPIKey {
		return s.providedMethod(ctx, t, name)
	}
	i := slices.IndexFunc(t.methods, func(m Method) bool { return m.Name == name })
	if i < 0 {
		names := make([]string, len(t.methods))
		for i, m := range t.methods {
			names[i] = m.Name
		}
		return Method{}, Credential{}, errs.Newf(errs.NotFound, "Method '%s' not found in toolset '%s'. Available methods: %s",
			name, t.Key, strings.Join(names, ", "))
	}
	if t.credential == "" {
		return t.methods[i], Credential{}, nil
	}
	opened, err := s.Box.Open(t.credential)
	if err != nil {
		return Method{}, Credential{}, broken(t.Key, fmt.Errorf("credential, sealed with another ENCRYPTION_KEY perhaps: %w", err))
	}
	c, err := parseCredential(opened)
	if err != nil {
		return Method{}, Credential{}, broken(t.Key, fmt.Errorf("credential: %w", err))
	}
	return t.methods[i], c, nil
}

package server

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
)

// View is a server as it is shown. What may hold a credential is left out: of
// headers and variables only the names are there, of the address only where it is.
type View struct {
	Name      string
	Owner     string // empty for everybody's
	Transport Transport
	Origin    string // of the URL
	Headers   []string
	Env       []string
	OAuth     bool
	Sandbox   bool
	Enabled   bool
	// Values are the placeholders, and whether the viewer has given values.
	Values []Value
	// Authorized reports whether the viewer has authorized Portico there.
	Authorized bool
	Price      money.Amount
	Prices     map[string]money.Amount
	Pinned     bool
	// Hides is what the viewer does not reach because of the server's name: a
	// toolset of that key, or a server of everybody.
	Hides string
	// Problem is why it cannot be used as it is; nil for nothing.
	Problem              error
	CreatedAt, UpdatedAt time.Time
}

// Value is a placeholder of a server.
type Value struct {
	Name string `json:"name" doc:"As it stands between {{ and }}"`
	Set  bool   `json:"set" doc:"Whether the caller has given a value"`
}

// List shows the servers that the actor may use or has switched off, by name.
func (s *Service) List(ctx context.Context, a actor.Actor) ([]View, error) {
	d, credentials, err := s.fresh(ctx, a)
	if err != nil {
		return nil, err
	}
	views := make([]View, 0, len(d))
	for _, name := range slices.Sorted(maps.Keys(d)) {
		views = append(views, view(d[name], credentials[d[name].ID]))
	}
	return views, nil
}

// Show shows one of them.
func (s *Service) Show(ctx context.Context, a actor.Actor, name string) (View, error) {
	d, credentials, err := s.fresh(ctx, a)
	if err != nil {
		return View{}, err
	}
	u, ok := d[name]
	if !ok {
		return View{}, missing(name)
	}
	v := view(u, credentials[u.ID])
	v.Hides, err = s.hides(ctx, u)
	return v, err
}

// fresh reads what an actor may use, with the actor's credentials.
func (s *Service) fresh(ctx context.Context, a actor.Actor) (directory, map[int64]credentialRow, error) {
	d, err := s.read(ctx, a.UID)
	if err != nil {
		return nil, nil, err
	}
	credentials, err := s.rows.credentials(s.db.Read(ctx), a.UID)
	return d, credentials, err
}

func (s *Service) hides(ctx context.Context, u usable) (string, error) {
	taken, err := s.taken(ctx, u.Name)
	if err != nil || !taken {
		return "", err
	}
	return "toolset " + u.Name, nil
}

func view(u usable, c credentialRow) View {
	v := View{
		Name: u.Name, Owner: u.UID, Transport: u.spec.Transport, Headers: names(u.spec.Headers), Env: names(u.spec.Env), OAuth: u.OAuth, Sandbox: u.Sandbox,
		Enabled: u.row.Enabled, Authorized: c.Tokens != nil, Price: u.Price, Prices: u.Prices, Pinned: u.Pins != nil, Problem: u.problem(),
		CreatedAt: u.row.CreatedAt.UTC(), UpdatedAt: u.row.UpdatedAt.UTC(), Values: []Value{},
	}
	if at, err := url.Parse(u.URL); err == nil && at.Host != "" {
		v.Origin = (&url.URL{Scheme: at.Scheme, Host: at.Host}).String()
	}
	all := append(placeholders(u.spec.Headers), placeholders(u.spec.Env)...)
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		v.Values = append(v.Values, Value{Name: name, Set: !slices.Contains(u.missing, name)})
	}
	return v
}

func names(m map[string]string) []string {
	return append([]string{}, slices.Sorted(maps.Keys(m))...)
}

// Add gives the actor a server of their own.
func (s *Service) Add(ctx context.Context, a actor.Actor, spec Spec) (View, error) {
	if err := spec.checkOfUser(s.settings.Egress); err != nil {
		return View{}, err
	}
	if err := s.add(ctx, a, a.UID, spec, ""); err != nil {
		return View{}, err
	}
	return s.Show(ctx, a, spec.Name)
}

// Patch is what changes in a server; nil leaves as it is. Headers are replaced as a
// whole.
type Patch struct {
	URL     *string
	Headers *map[string]string
	OAuth   *bool
	Client  *Client
	Scopes  *[]string
	Refresh *time.Duration
	Enabled *bool
}

// Change changes a server of the actor's own.
func (s *Service) Change(ctx context.Context, a actor.Actor, name string, p Patch) (View, error) {
	row, err := s.rows.owned(s.db.Read(ctx), a.UID, name)
	if err != nil {
		return View{}, err
	}
	spec, err := s.specOf(row)
	if err != nil {
		return View{}, errs.Newf(errs.Conflict, "What is stored of MCP server %s cannot be read.", name).Do("Delete it and add it again.").With(err)
	}
	before := spec
	p.apply(&spec)
	if spec.Transport == HTTP { // a process is the operator's work, and stays as it is
		unchanged := spec
		unchanged.Egress, unchanged.Price, unchanged.Prices = nil, 0, nil
		if err := unchanged.checkOfUser(append(slices.Clone(s.settings.Egress), spec.Egress...)); err != nil {
			return View{}, err
		}
	}
	// An address that the operator opened networks for stays that address.
	if len(spec.Egress) > 0 && spec.URL != before.URL {
		return View{}, errs.New(errs.Forbidden, "The operator opened a network for this server's address.").Do("Add another server for the new address.")
	}
	if err := s.change(ctx, a, row, spec, row.Source); err != nil {
		return View{}, err
	}
	return s.Show(ctx, a, name)
}

func (p Patch) apply(spec *Spec) {
	set(&spec.URL, p.URL)
	set(&spec.Headers, p.Headers)
	set(&spec.OAuth, p.OAuth)
	set(&spec.Client, p.Client)
	set(&spec.Scopes, p.Scopes)
	set(&spec.Refresh, p.Refresh)
	if p.Enabled != nil {
		spec.Off = !*p.Enabled
	}
}

func set[T any](into, from *T) {
	if from != nil {
		*into = *from
	}
}

// Remove deletes a server of the actor's own, with the credentials and lists that
// were kept for it.
func (s *Service) Remove(ctx context.Context, a actor.Actor, name string) error {
	return s.remove(ctx, a, a.UID, name)
}

// SetValues gives placeholders of a server the actor's values. A nil value forgets
// one; those that are not named stay.
func (s *Service) SetValues(ctx context.Context, a actor.Actor, name string, values map[string]*string) (View, error) {
	d, credentials, err := s.fresh(ctx, a)
	if err != nil {
		return View{}, err
	}
	u, ok := d[name]
	if !ok {
		return View{}, missing(name)
	}
	now := map[string]string{}
	if err := s.unseal(credentials[u.ID].Placeholders, &now); err != nil {
		s.logger.WarnContext(ctx, "values of a user cannot be read; they are replaced", "server", name, "uid", a.UID, "error", err)
		now = map[string]string{}
	}
	known := append(placeholders(u.spec.Headers), placeholders(u.spec.Env)...)
	for variable, value := range values {
		switch {
		case !slices.Contains(known, variable):
			return View{}, errs.Newf(errs.Invalid, "values: server %s has no placeholder %q.", name, variable).Do("It has: " + strings.Join(known, ", ") + ".")
		case value == nil:
			delete(now, variable)
		case !httpguts.ValidHeaderFieldValue(*value) || len(*value) > maxValue || *value == "":
			return View{}, errs.Newf(errs.Invalid, "values: %q is one line of 1 to %d bytes.", variable, maxValue)
		default:
			now[variable] = *value
		}
	}
	sealed, err := s.seal(now)
	if err != nil {
		return View{}, err
	}
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		row := credentialRow{ServerPK: u.ID, UID: a.UID, Version: ids.New("mc"), Placeholders: sealed, UpdatedAt: s.now()}
		if err := s.rows.savePlaceholders(tx, row); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: a, Action: "mcp.values", Subject: name, Detail: map[string]string{"names": strings.Join(slices.Sorted(maps.Keys(values)), ",")}}, s.now())
	})
	if err != nil {
		return View{}, err
	}
	return s.Show(ctx, a, name)
}

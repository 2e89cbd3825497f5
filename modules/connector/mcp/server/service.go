package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
)

// missing is the error for a name that means nothing to the caller. Clients know
// how its sentence begins.
func missing(name string) error {
	return errs.Newf(errs.ToolsetMissing, "Toolset not found: %s.", name).
		Do("GET /v1/mcp/servers lists the MCP servers that you may use; POST adds one.")
}

// directory is the servers that one user may use, by name.
type directory map[string]usable

// usable is a server, or why it cannot be used.
type usable struct {
	Server

	row     serverRow
	spec    Spec
	missing []string // placeholders without a value
	err     error    // of reading what is stored
}

// Find returns the actor's own server of a name, else everybody's. The error has
// the code errs.ToolsetMissing where there is none, and says what to do where the
// actor has to give values first.
func (s *Service) Find(ctx context.Context, a actor.Actor, name string) (Server, error) {
	d, err := s.directory(ctx, a)
	if err != nil {
		return Server{}, err
	}
	u, ok := d[name]
	if !ok || !u.row.Enabled {
		return Server{}, missing(name)
	}
	return u.Server, u.problem()
}

// All returns the servers that an actor may use, by name. Those that cannot be
// used as they are, such as one that lacks values of the actor's, are left out.
func (s *Service) All(ctx context.Context, a actor.Actor) ([]Server, error) {
	d, err := s.directory(ctx, a)
	if err != nil {
		return nil, err
	}
	var servers []Server
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if u := d[name]; u.row.Enabled && u.problem() == nil {
			servers = append(servers, u.Server)
		}
	}
	return servers, nil
}

// problem is why a server cannot be used; nil where it can.
func (u usable) problem() error {
	switch {
	case u.err != nil:
		return u.err
	case len(u.missing) > 0:
		return errs.Newf(errs.Forbidden, "MCP server %s needs values of yours: %s.", u.Name, strings.Join(u.missing, ", ")).
			Do("PUT /v1/mcp/servers/" + u.Name + "/values sets them.")
	}
	return nil
}

// Last returns the list that was kept last for the user whose credentials a
// server holds; the zero value for none. A list of settings that have changed
// since is none.
func (s *Service) Last(ctx context.Context, of Server) (List, error) {
	row, err := s.rows.list(s.db.Read(ctx), of.ID, of.For)
	if err != nil || row.PK == 0 || row.Version != of.Version {
		return List{}, err
	}
	var l List
	if err := json.Unmarshal([]byte(row.List), &l); err != nil {
		return List{}, fmt.Errorf("the stored list of MCP server %s: %w", of.Name, err)
	}
	return l, nil
}

// Keep stores what a server offered in place of what was stored.
func (s *Service) Keep(ctx context.Context, of Server, l List) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return s.db.InTx(ctx, func(tx database.Tx) error {
		return s.rows.saveList(tx, listRow{ServerPK: of.ID, UID: of.For, Version: of.Version, List: string(text), ListedAt: s.now()})
	})
}

// directory reads what an actor may use, or knows it from a moment ago.
func (s *Service) directory(ctx context.Context, a actor.Actor) (directory, error) {
	return s.usable.Get(ctx, a.UID, func(ctx context.Context) (directory, error) { return s.read(ctx, a.UID) })
}

func (s *Service) read(ctx context.Context, uid string) (directory, error) {
	h := s.db.Read(ctx)
	rows, err := s.rows.visible(h, uid)
	if err != nil {
		return nil, err
	}
	credentials, err := s.rows.credentials(h, uid)
	if err != nil {
		return nil, err
	}
	d := make(directory, len(rows))
	for _, row := range rows {
		if before, ok := d[row.Name]; ok && before.row.Enabled {
			continue // the user's own comes first
		}
		u := s.open(row, uid, credentials[row.PK])
		if u.err != nil {
			s.logger.ErrorContext(ctx, "an MCP server cannot be read", "server", row.Name, "uid", database.Text(row.UID), "error", errors.Unwrap(u.err))
		}
		d[row.Name] = u
	}
	return d, nil
}

// config is the column of that name.
type config struct {
	Sandbox bool           `json:"sandbox,omitempty"`
	OAuth   bool           `json:"oauth,omitempty"`
	Scopes  []string       `json:"scopes,omitempty"`
	Egress  []netip.Prefix `json:"egress,omitempty"`
	Refresh time.Duration  `json:"refresh,omitempty"`
}

// prices is the column of that name.
type prices struct {
	Price  money.Amount            `json:"price"`
	Prices map[string]money.Amount `json:"tools,omitempty"`
}

// open says what a row means to a user.
func (s *Service) open(row serverRow, uid string, c credentialRow) usable {
	u := usable{row: row}
	u.ID, u.Name, u.UID = row.PK, row.Name, database.Text(row.UID)
	var err error
	if u.spec, err = s.specOf(row); err == nil {
		err = s.complete(&u, uid, c)
	}
	if err != nil {
		u.err = errs.Newf(errs.Unavailable, "What is stored of MCP server %s cannot be read.", row.Name).
			Do("Whoever added it removes it and adds it again; the log of this server has the cause.").With(err)
	}
	return u
}

// complete makes a server of a spec, for one user.
func (s *Service) complete(u *usable, uid string, c credentialRow) error {
	spec := u.spec
	var values map[string]string
	if err := s.unseal(c.Placeholders, &values); err != nil {
		return err
	}
	wanted := append(placeholders(spec.Headers), placeholders(spec.Env)...)
	u.Version, u.Transport = u.row.Version, spec.Transport
	u.Client, u.Scopes = spec.Client, spec.Scopes
	u.URL, u.Command, u.Args, u.Sandbox, u.OAuth = spec.URL, spec.Command, spec.Args, spec.Sandbox, spec.OAuth
	var lacks []string
	u.Headers, lacks = fill(spec.Headers, values)
	u.missing = append(u.missing, lacks...)
	u.Env, lacks = fill(spec.Env, values)
	u.missing = append(u.missing, lacks...)
	if u.UID != everybody {
		u.For = u.UID
	}
	if spec.OAuth || len(wanted) > 0 {
		u.For = uid
		u.Version += "/" + c.Version
	}
	u.Egress, u.Refresh = spec.Egress, spec.Refresh
	if u.UID != everybody && spec.Transport == HTTP {
		u.Egress = append(slices.Clone(spec.Egress), s.settings.Egress...)
	}
	if u.Refresh == 0 {
		u.Refresh = s.settings.Refresh
	}
	u.Price, u.Prices = spec.Price, spec.Prices
	return decode(u.row.Pins, &u.Pins)
}

// specOf reads the settings of a row.
func (s *Service) specOf(row serverRow) (Spec, error) {
	spec := Spec{Name: row.Name, Transport: HTTP, URL: database.Text(row.URL), Command: database.Text(row.Command), Off: !row.Enabled}
	switch row.Type {
	case string(Stdio):
		spec.Transport = Stdio
	case typeHTTP, "http", "streamable-http":
	default:
		return spec, fmt.Errorf("the type %q is not supported", row.Type)
	}
	var c config
	var p prices
	err := errors.Join(decode(row.Args, &spec.Args), decode(row.Config, &c), decode(row.Prices, &p),
		s.unseal(row.Env, &spec.Env), s.unseal(row.Headers, &spec.Headers), s.unseal(row.Client, &spec.Client))
	spec.Sandbox, spec.OAuth, spec.Scopes, spec.Egress, spec.Refresh = c.Sandbox, c.OAuth, c.Scopes, c.Egress, c.Refresh
	spec.Price, spec.Prices = p.Price, p.Prices
	return spec, err
}

// typeHTTP is what the column type calls HTTP.
const typeHTTP = "streamable"

// rowOf is how settings are stored. It sets neither owner nor times.
func (s *Service) rowOf(spec Spec) (serverRow, error) {
	row := serverRow{Name: spec.Name, Type: typeHTTP, URL: database.Optional(spec.URL), Command: database.Optional(spec.Command), Enabled: !spec.Off}
	if spec.Transport == Stdio {
		row.Type = string(Stdio)
	}
	var err error
	encode := func(into **string, v any, empty, sealed bool) {
		if empty {
			return
		}
		text, failure := json.Marshal(v)
		err = errors.Join(err, failure)
		if sealed {
			text = []byte(s.box.Seal(text))
		}
		*into = new(string(text))
	}
	encode(&row.Args, spec.Args, len(spec.Args) == 0, false)
	encode(&row.Env, spec.Env, len(spec.Env) == 0, true)
	encode(&row.Headers, spec.Headers, len(spec.Headers) == 0, true)
	encode(&row.Client, spec.Client, spec.Client == Client{}, true)
	encode(&row.Prices, prices{spec.Price, spec.Prices}, spec.Price == 0 && len(spec.Prices) == 0, false)
	encode(&row.Config, config{spec.Sandbox, spec.OAuth, spec.Scopes, spec.Egress, spec.Refresh}, false, false)
	return row, err
}

// decode reads JSON of a column.
func decode(column *string, into any) error {
	if column == nil || *column == "" {
		return nil
	}
	return json.Unmarshal([]byte(*column), into)
}

// unseal reads sealed JSON of a column. Rows that another program wrote have it
// in the clear.
func (s *Service) unseal(column *string, into any) error {
	if column == nil || *column == "" || strings.HasPrefix(strings.TrimSpace(*column), "{") {
		return decode(column, into)
	}
	text, err := s.box.Open(*column)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

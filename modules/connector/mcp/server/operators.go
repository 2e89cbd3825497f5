package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
)

// Operators is what whoever runs this server may do: with the servers of
// everybody, whose owner is the empty uid, and with those of each user.
type Operators struct{ service *Service }

// Operators returns it.
func (s *Service) Operators() Operators { return Operators{s} }

// by is who operators are in the audit log of an owner.
func by(owner string) actor.Actor {
	if owner == everybody {
		return actor.Actor{UID: audit.Operator}
	}
	return actor.Actor{UID: owner}
}

// Add adds a server, of any transport.
func (o Operators) Add(ctx context.Context, owner string, spec Spec) error {
	return o.service.add(ctx, by(owner), owner, spec, "")
}

// Remove deletes a server. One of a file comes back with the file.
func (o Operators) Remove(ctx context.Context, owner, name string) error {
	row, err := o.service.rows.owned(o.service.db.Read(ctx), owner, name)
	if err != nil {
		return err
	}
	if row.Source != "" {
		return errs.Newf(errs.Conflict, "MCP server %s is described in %s, which the server loads whenever it starts.", name, row.Source).
			Do("Take it out of that file; it goes when the file is loaded.")
	}
	return o.service.remove(ctx, by(owner), owner, name)
}

// All shows the servers of everybody and of all users, by name.
func (o Operators) All(ctx context.Context) ([]Shown, error) {
	rows, err := o.service.rows.all(o.service.db.Read(ctx))
	if err != nil {
		return nil, err
	}
	all := make([]Shown, len(rows))
	for i, row := range rows {
		all[i] = o.shown(row)
	}
	return all, nil
}

// Shown is a server with what only operators see.
type Shown struct {
	View

	URL     string
	Command string
	Args    []string
	Source  string
	Egress  []string
	Scopes  []string
	Pins    map[string]string
}

// Show shows a server of an owner.
func (o Operators) Show(ctx context.Context, owner, name string) (Shown, error) {
	row, err := o.service.rows.owned(o.service.db.Read(ctx), owner, name)
	if err != nil {
		return Shown{}, err
	}
	return o.shown(row), nil
}

func (o Operators) shown(row serverRow) Shown {
	u := o.service.open(row, database.Text(row.UID), credentialRow{})
	out := Shown{View: view(u, credentialRow{}), URL: u.URL, Command: u.Command, Args: u.Args, Source: row.Source, Scopes: u.spec.Scopes, Pins: u.Pins}
	for _, p := range u.spec.Egress {
		out.Egress = append(out.Egress, p.String())
	}
	return out
}

// SetPrice says what a call costs: of one tool, by the name that the server uses,
// or, without a tool, of all that have no price of their own. A negative price
// takes one tool's away.
func (o Operators) SetPrice(ctx context.Context, owner, name, tool string, price money.Amount) error {
	row, err := o.service.rows.owned(o.service.db.Read(ctx), owner, name)
	if err != nil {
		return err
	}
	var p prices
	if err := decode(row.Prices, &p); err != nil {
		return fmt.Errorf("the stored prices of MCP server %s: %w", name, err)
	}
	switch {
	case tool == "" && price < 0:
		return errs.New(errs.Invalid, "A price is not negative.")
	case tool == "":
		p.Price = price
	case price < 0:
		delete(p.Prices, tool)
	default:
		if p.Prices == nil {
			p.Prices = map[string]money.Amount{}
		}
		p.Prices[tool] = price
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return o.set(ctx, row, "mcp.price", map[string]any{"prices": string(text)}, map[string]string{"tool": tool, "price": price.String()})
}

// Pin accepts the tools of a list, and those only, as they are.
func (o Operators) Pin(ctx context.Context, owner, name string, l List) error {
	row, err := o.service.rows.owned(o.service.db.Read(ctx), owner, name)
	if err != nil {
		return err
	}
	pins := make(map[string]string, len(l.Tools))
	for _, t := range l.Tools {
		pins[t.Name] = t.Hash
	}
	text, err := json.Marshal(pins)
	if err != nil {
		return err
	}
	return o.set(ctx, row, "mcp.pin", map[string]any{"pins": string(text)}, map[string]string{"tools": fmt.Sprint(len(pins)), "list": l.Hash})
}

// Unpin accepts whatever a server offers.
func (o Operators) Unpin(ctx context.Context, owner, name string) error {
	row, err := o.service.rows.owned(o.service.db.Read(ctx), owner, name)
	if err != nil {
		return err
	}
	return o.set(ctx, row, "mcp.unpin", map[string]any{"pins": nil}, nil)
}

// set changes what concerns no connection.
func (o Operators) set(ctx context.Context, row serverRow, action string, columns map[string]any, detail map[string]string) error {
	s := o.service
	columns["updated_at"] = s.now()
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.update(tx, row, columns); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: by(database.Text(row.UID)), Action: action, Subject: row.Name, Detail: detail}, s.now())
	})
}

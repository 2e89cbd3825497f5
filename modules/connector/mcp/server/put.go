package server

import (
	"context"
	"reflect"

	"github.com/portico-run/portico/internal/errs"
)

// Put is what became of a server that a file describes.
type Put string

// What became of it.
const (
	Created   Put = "created"
	Updated   Put = "updated"
	Unchanged Put = "unchanged"
)

// Put makes a server of everybody what a file says. It refuses to take over one
// that a command added.
func (o Operators) Put(ctx context.Context, spec Spec, source string) (Put, error) {
	s := o.service
	row, err := s.rows.owned(s.db.Read(ctx), everybody, spec.Name)
	switch {
	case errs.CodeOf(err) == errs.ToolsetMissing:
		return Created, s.add(ctx, by(everybody), everybody, spec, source)
	case err != nil:
		return "", err
	case row.Source == "":
		return "", errs.Newf(errs.Conflict, "There is an MCP server %s that a command added.", spec.Name).Do("Remove that one, or name this one otherwise.")
	}
	if now, err := s.specOf(row); err == nil && row.Source == source && reflect.DeepEqual(tidy(now), tidy(spec)) {
		return Unchanged, nil
	}
	return Updated, s.change(ctx, by(everybody), row, spec, source)
}

// Drop deletes a server of everybody that no file describes any more.
func (o Operators) Drop(ctx context.Context, name string) error {
	return o.service.remove(ctx, by(everybody), everybody, name)
}

// tidy has nothing where there is nothing.
func tidy(s Spec) Spec {
	if len(s.Headers) == 0 {
		s.Headers = nil
	}
	if len(s.Env) == 0 {
		s.Env = nil
	}
	if len(s.Prices) == 0 {
		s.Prices = nil
	}
	s.Args, s.Scopes, s.Egress = some(s.Args), some(s.Scopes), some(s.Egress)
	return s
}

func some[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

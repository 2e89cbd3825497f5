package describe

import (
	"context"
	"slices"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// described is a server of everybody as a file describes it. err is what is wrong
// with it: such a server stays as it is.
type described struct {
	server.Spec

	marks  []mark.Mark
	source string
	line   int
	err    error
}

// Applied is what became of descriptions, by the names of servers.
type Applied struct{ Created, Updated, Unchanged, Removed []string }

// apply makes the servers that files describe what the files say, and returns what
// is refused. Those of files that are not described any more go, unless partial
// says that some files could not be read.
func apply(ctx context.Context, into Into, all []described, partial bool) (Applied, []Problem, error) {
	var out Applied
	var problems []Problem
	for _, d := range all {
		if d.err != nil {
			continue // whoever read the file tells of it
		}
		put, err := put(ctx, into, d)
		if code := errs.CodeOf(err); code == errs.Internal {
			return out, problems, err
		} else if code != "" {
			problems = append(problems, Problem{File: d.source, Line: d.line, Server: d.Name, Message: err.Error()})
			continue
		}
		list := map[server.Put]*[]string{server.Created: &out.Created, server.Updated: &out.Updated, server.Unchanged: &out.Unchanged}[put]
		*list = append(*list, d.Name)
	}
	if partial {
		return out, problems, nil
	}
	known, err := into.Servers.All(ctx)
	if err != nil {
		return out, problems, err
	}
	for _, one := range known {
		if one.Owner != "" || one.Source == "" || slices.ContainsFunc(all, func(d described) bool { return d.Name == one.Name }) {
			continue
		}
		if err := into.Servers.Drop(ctx, one.Name); err != nil {
			return out, problems, err
		}
		if _, err := into.Marks.OfFile(ctx, one.Name, nil); err != nil {
			return out, problems, err
		}
		out.Removed = append(out.Removed, one.Name)
	}
	return out, problems, nil
}

// put makes one server, and the marks of its tools, what a file says.
func put(ctx context.Context, into Into, d described) (server.Put, error) {
	done, err := into.Servers.Put(ctx, d.Spec, d.source)
	if err != nil {
		return done, err
	}
	changed, err := into.Marks.OfFile(ctx, d.Name, d.marks)
	if changed && done == server.Unchanged {
		done = server.Updated
	}
	return done, err
}

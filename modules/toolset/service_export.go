package toolset

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Failure is one toolset that could not be exported.
type Failure struct {
	Key     string
	Problem error
	// Server says that it is an MCP server.
	Server bool
}

// Export describes toolsets for the generation of code, in the order of the
// keys; without keys, all that the caller may use and code can be generated
// for, sorted by key. What cannot be exported is a Failure beside the others.
func (s *Service) Export(ctx context.Context, a actor.Actor, keys []string) ([]Definition, []Failure, error) {
	installed, err := s.rows.Installed(s.db.Read(ctx), a.UID)
	if err != nil {
		return nil, nil, err
	}
	usable := map[string]rows.Toolset{}
	for _, r := range installed {
		if _, own := usable[r.Key]; r.Enabled && !own { // the user's row comes first
			usable[r.Key] = r
		}
	}
	servers, err := s.described(ctx, a, keys, usable)
	if err != nil {
		return nil, nil, err
	}
	if len(keys) == 0 {
		for key, r := range usable {
			if source, ok := s.kinds.Installed(database.Text(r.AuthType), key); ok && !source.Off {
				keys = append(keys, key)
			}
		}
		keys = append(keys, slices.Collect(maps.Keys(servers))...)
		slices.Sort(keys)
		keys = slices.Compact(keys)
	}
	definitions := []Definition{}
	var failures []Failure
	for _, key := range keys {
		one, isServer := servers[key]
		d, err := one.Definition, one.Problem
		if !isServer {
			d, err = s.define(ctx, key, usable)
		}
		switch {
		case err == nil:
			definitions = append(definitions, d)
		case errs.CodeOf(err) == errs.Internal || ctx.Err() != nil:
			return nil, nil, err
		default:
			s.Report(ctx, err)
			failures = append(failures, Failure{Key: key, Problem: err, Server: isServer})
		}
	}
	return definitions, failures, nil
}

func (s *Service) define(ctx context.Context, key string, usable map[string]rows.Toolset) (Definition, error) {
	if ptc.IsBuiltin(key) {
		return Definition{}, errs.Newf(errs.Invalid, "Toolset %s is builtin and is not exported.", key).Do("Name toolsets of the inventory.")
	}
	r, ok := usable[key]
	if !ok {
		return Definition{}, Missing(key)
	}
	source, ok := s.kinds.Installed(database.Text(r.AuthType), key)
	if !ok {
		return Definition{}, Missing(key)
	}
	return source.Define(ctx, s.entryOf(r, source.Kind))
}

// english is the text of a dictionary of languages that is exported: en, else
// zh-CN.
func english(dict string) string {
	texts := Texts(dict)
	if t, ok := texts["en"]; ok {
		return t
	}
	return texts["zh-CN"]
}

// Texts reads a dictionary of languages as it is stored.
func Texts(dict string) map[string]string {
	out := map[string]string{}
	if json.Unmarshal([]byte(dict), &out) != nil {
		return map[string]string{} // a dictionary nobody can read says nothing
	}
	return out
}

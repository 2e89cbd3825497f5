package toolset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/ptc"
)

// Failure is one toolset that could not be exported.
type Failure struct {
	Key     string
	Problem error
}

// Export describes toolsets for the generation of code, in the order of the
// keys; without keys, all that the caller may use and code can be generated
// for, sorted by key. What cannot be exported is a Failure beside the others.
func (s *Service) Export(ctx context.Context, a actor.Actor, keys []string) ([]Definition, []Failure, error) {
	h := s.DB.Read(ctx)
	rows, err := s.rows.installed(h, a.UID)
	if err != nil {
		return nil, nil, err
	}
	kinds := map[string]Kind{}
	for _, r := range rows {
		if _, own := kinds[r.Key]; r.Enabled && !own { // the user's row comes first
			kinds[r.Key] = s.kindOf(deref(r.AuthType), r.Key)
		}
	}
	if len(keys) == 0 {
		for key, kind := range kinds {
			if s.Provider.Connected() || kind == ConfigBased || kind == LegacySDK {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
	}
	definitions := []Definition{}
	var failures []Failure
	for _, key := range keys {
		d, err := s.define(ctx, h, key, kinds)
		switch {
		case err == nil:
			definitions = append(definitions, d)
		case errs.CodeOf(err) == errs.Internal || ctx.Err() != nil:
			return nil, nil, err
		default:
			s.report(ctx, err)
			failures = append(failures, Failure{Key: key, Problem: err})
		}
	}
	return definitions, failures, nil
}

func (s *Service) define(ctx context.Context, h database.Handle, key string, kinds map[string]Kind) (Definition, error) {
	kind, ok := kinds[key]
	switch {
	case ptc.IsBuiltin(key):
		return Definition{}, errs.Newf(errs.Invalid, "Toolset %s is builtin and is not exported.", key).Do("Name toolsets of the inventory.")
	case !ok:
		return Definition{}, missing(key)
	case kind == LegacySDK:
		return s.legacy[key].definition(), nil
	case kind == ComposioOAuth || kind == ComposioAPIKey:
		return s.defineProvided(ctx, h, key)
	}
	item, err := s.rows.inventory(h, key)
	if err != nil {
		return Definition{}, err
	}
	p, err := s.parse(h, item)
	if err != nil {
		return Definition{}, err
	}
	d := Definition{Key: key, Name: item.Name, Description: english(item.DescriptionDict), Tools: []ToolDefinition{}}
	for _, m := range p.methods {
		schema, err := withFileTitle(m.Request)
		if err != nil {
			return Definition{}, broken(key, fmt.Errorf("schema of %s: %w", m.Name, err))
		}
		d.Tools = append(d.Tools, ToolDefinition{Name: m.Name, Description: m.Description, InputSchema: schema, OutputSchema: outputOf(m), Callers: m.Callers()})
	}
	return d, nil
}

// english is the text of a dictionary of languages that is exported: en, else
// zh-CN.
func english(dict string) string {
	texts := texts(dict)
	if t, ok := texts["en"]; ok {
		return t
	}
	return texts["zh-CN"]
}

func texts(dict string) map[string]string {
	out := map[string]string{}
	if json.Unmarshal([]byte(dict), &out) != nil {
		return map[string]string{} // a dictionary nobody can read says nothing
	}
	return out
}

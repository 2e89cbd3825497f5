package flat

import (
	"context"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// For returns the plain functions that a user may call, by their toolsets: the
// server's own first, llm_query before all others. Keys, if there are some, are
// the only toolsets that count. What cannot be described at the moment is left
// out.
func (s *Service) For(ctx context.Context, a actor.Actor, keys []string) ([]toolset.Definition, error) {
	var sets []toolset.Definition
	if own := s.own(); len(own.Tools) > 0 {
		sets = append(sets, own)
	}
	if s.deps.Settings.Off {
		return sets, nil
	}
	marks, err := s.inForce(ctx, a, keys)
	if err != nil || len(marks) == 0 {
		return sets, err
	}
	var wanted []string
	for _, m := range marks {
		if !slices.Contains(wanted, m.Toolset) {
			wanted = append(wanted, m.Toolset)
		}
	}
	described, _, err := s.deps.Tools.Export(ctx, a, wanted) // a toolset that the user does not have has no functions
	if err != nil {
		return nil, err
	}
	for _, set := range described {
		tools := set.Tools
		set.Tools = nil
		for _, m := range marks {
			if i := slices.IndexFunc(tools, func(t toolset.ToolDefinition) bool { return m.Toolset == set.Key && t.Name == m.Tool }); i >= 0 && tools[i].Callers.Code {
				t := tools[i]
				t.As, t.Plain = m.Name, true
				set.Tools = append(set.Tools, t)
			}
		}
		if len(set.Tools) > 0 {
			sets = append(sets, set)
		}
	}
	return sets, nil
}

// own are the server's functions.
func (s *Service) own() toolset.Definition {
	d := toolset.Definition{Key: ptc.Own, Name: "Portico", Description: "The server's own functions."}
	for _, f := range s.deps.Functions.ForCode() {
		if s.deps.Settings.Off && f.Name != Query {
			continue
		}
		t := toolset.ToolDefinition{
			Name: f.Name, Description: f.Description, InputSchema: f.Input, OutputSchema: f.Output, Callers: toolset.Callers{Code: true},
			As: f.Name, Plain: true,
		}
		if len(t.OutputSchema) == 0 {
			t.OutputSchema = []byte(`{"type":"string"}`)
		}
		d.Tools = append(d.Tools, t)
	}
	slices.SortStableFunc(d.Tools, func(a, b toolset.ToolDefinition) int { return rank(a.Name) - rank(b.Name) })
	return d
}

func rank(name string) int {
	if name == Query {
		return 0
	}
	return 1
}

// inForce are the marks that count: not those whose names functions of the
// server have, nor those that a server contradicts.
func (s *Service) inForce(ctx context.Context, a actor.Actor, keys []string) ([]mark.Mark, error) {
	all, err := s.deps.Marks.All(ctx)
	if err != nil {
		return nil, err
	}
	var list []mark.Mark
	for _, m := range all {
		if len(keys) > 0 && !slices.Contains(keys, m.Toolset) {
			continue
		}
		why, err := s.contradiction(ctx, a, m)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil { // a server that cannot be asked takes no other function along
			why = "cannot be asked about: " + err.Error()
		}
		if why != "" {
			s.deps.Logger.WarnContext(ctx, "a marked tool is no function", "toolset", m.Toolset, "tool", m.Tool, "reason", why)
			continue
		}
		list = append(list, m)
	}
	return list, nil
}

// Join adds plain functions to the toolsets of a program. A tool that is there
// already is named as its function is; of a toolset that is there without a tool,
// the program was not given the tool.
func Join(sets, functions []toolset.Definition) []toolset.Definition {
	out := slices.Clone(sets)
	for _, more := range functions {
		i := slices.IndexFunc(out, func(d toolset.Definition) bool { return d.Key == more.Key })
		if i < 0 {
			out = append(out, more)
			continue
		}
		out[i].Tools = slices.Clone(out[i].Tools)
		for _, t := range more.Tools {
			n := slices.IndexFunc(out[i].Tools, func(known toolset.ToolDefinition) bool { return known.Name == t.Name })
			switch {
			case n >= 0 && more.Key != ptc.Own:
				out[i].Tools[n].As, out[i].Tools[n].Plain = t.As, true
			case n < 0 && more.Key == ptc.Own:
				out[i].Tools = append(out[i].Tools, t)
			}
		}
	}
	return out
}

// Batched adds llm_query_batch where there is llm_query.
func Batched(stubs []sandbox.Stub) []sandbox.Stub {
	for _, s := range stubs {
		if s.Toolset != ptc.Own || s.Name != Query {
			continue
		}
		s.Identifier, s.Each = QueryBatch, true
		s.Doc = "Ask a language model several questions, a few at a time. The answers come in the order of the prompts."
		return append(stubs, s)
	}
	return stubs
}

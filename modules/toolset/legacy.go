package toolset

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/legacy"
)

// legacyToolset is a toolset whose client is code, ready to be looked up.
type legacyToolset struct {
	legacy.Toolset

	methods []Method
}

func newLegacy(t legacy.Toolset) legacyToolset {
	l := legacyToolset{Toolset: t}
	for _, tool := range t.Tools {
		l.methods = append(l.methods, Method{Name: tool.Name, Description: tool.Description, Request: tool.Input, Response: tool.Output})
	}
	return l
}

// definition is what code is generated from. Its tools have no file_name_title:
// those that make a file have a parameter of their own for its name.
func (l legacyToolset) definition() Definition {
	d := Definition{Key: l.Key, Name: l.Name, Description: l.Description, Tools: []ToolDefinition{}}
	for _, m := range l.methods {
		d.Tools = append(d.Tools, ToolDefinition{Name: m.Name, Description: m.Description, InputSchema: m.Request, OutputSchema: outputOf(m), Callers: m.Callers()})
	}
	return d
}

// coded adds what is known of a toolset whose client is code: its tools come
// from the code, its address and credential from the inventory or its user.
func (s *Service) coded(h database.Handle, t Toolset, row usableRow) (Toolset, error) {
	l := s.legacy[t.Key]
	t.methods, t.Domain = l.methods, l.Domain
	item, err := s.rows.inventory(h, t.Key)
	if err != nil && errs.CodeOf(err) != errs.ToolsetMissing {
		return t, err
	}
	if item.Domain != nil {
		t.Domain = *item.Domain
	}
	if t.Egress, err = item.egress(); err != nil {
		return t, err
	}
	if t.Config, err = configOf(row.Config); err != nil {
		return t, broken(t.Key, fmt.Errorf("config: %w", err))
	}
	t.credential = row.credential(deref(item.APIKey))
	if !row.IsGlobal && len(t.Config) > 0 {
		// The operator opened these networks for the operator's addresses, not
		// for those that a user names.
		t.Egress = nil
	}
	return t, nil
}

// configOf reads what a toolset is configured with, as texts.
func configOf(stored *string) (map[string]string, error) {
	if stored == nil || *stored == "" {
		return nil, nil //nolint:nilnil // nothing is configured
	}
	var values map[string]any
	if err := json.Unmarshal([]byte(*stored), &values); err != nil {
		return nil, errors.New("is no JSON object")
	}
	out := map[string]string{}
	for name, v := range values {
		if text, ok := v.(string); ok {
			out[name] = text
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out[name] = string(text)
	}
	return out, nil
}

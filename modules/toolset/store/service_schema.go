package store

import (
	"maps"
	"slices"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// applySchemas keeps the schemas that methods refer to, each once. Where one is
// another than before, all are written anew: they come from one document.
func (s *Service) applySchemas(tx database.Tx, i Spec) (changed bool, err error) {
	stored, err := s.rows.Schemas(tx.Handle, i.Key)
	if err != nil {
		return false, err
	}
	same := len(stored) == len(i.Schemas)
	for _, r := range stored {
		same = same && r.Definition == string(i.Schemas[r.Name])
	}
	if same {
		return false, nil
	}
	if err := s.rows.DeleteSchemas(tx, i.Key); err != nil || len(i.Schemas) == 0 {
		return true, err
	}
	var added []rows.Schema
	for _, name := range slices.Sorted(maps.Keys(i.Schemas)) {
		added = append(added, rows.Schema{InventoryKey: i.Key, Name: name, Definition: string(i.Schemas[name])})
	}
	return true, s.rows.InsertSchemas(tx, added)
}

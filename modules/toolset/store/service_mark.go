package store

import (
	"slices"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/mark"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// applyMarks keeps which methods programs call as plain functions. What a file
// says of a method replaces what an operator said of it.
func (s *Service) applyMarks(tx database.Tx, i Spec, now time.Time) (changed bool, err error) {
	stored, err := s.rows.MarksOf(tx.Handle, i.Key)
	if err != nil {
		return false, err
	}
	wanted := map[string]rows.Mark{}
	for _, m := range i.Marks {
		wanted[m.Tool] = rows.Mark{
			ToolsetKey: i.Key, ToolName: m.Tool, Name: m.Name, ReadOnly: m.ReadOnly, Idempotent: m.Idempotent, FromFile: true,
		}
	}
	for _, r := range stored {
		want, ok := wanted[r.ToolName]
		want.PK, want.CreatedAt = r.PK, r.CreatedAt
		if ok && want == r || !ok && !r.FromFile && slices.ContainsFunc(i.Methods, func(m toolset.Method) bool { return m.Name == r.ToolName }) {
			delete(wanted, r.ToolName)
			continue
		}
		changed = true
		if _, err := s.rows.DeleteMark(tx, i.Key, r.ToolName); err != nil {
			return false, err
		}
	}
	for _, m := range i.Marks { // in their order
		row, ok := wanted[m.Tool]
		if !ok {
			continue
		}
		changed, row.CreatedAt = true, now
		if err := s.unnamed(tx, row); err != nil {
			return false, err
		}
		if err := s.rows.InsertMark(tx, row); err != nil {
			return false, err
		}
	}
	return changed, nil
}

// unnamed refuses a mark whose name another tool has.
func (s *Service) unnamed(tx database.Tx, want rows.Mark) error {
	all, err := s.rows.Marks(tx.Handle)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Name == want.Name {
			return mark.Taken(mark.Mark{Toolset: r.ToolsetKey, Tool: r.ToolName, Name: r.Name})
		}
	}
	return nil
}

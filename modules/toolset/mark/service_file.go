package mark

import (
	"context"
	"slices"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// OfFile makes the marks of a toolset what a file says, and reports whether that
// changed one. What the file says of a tool replaces what an operator said of it;
// other marks of operators stay. The error is Invalid with a Problem, and Conflict
// where a tool of another toolset has the name of a function; nothing changes
// then.
func (s *Service) OfFile(ctx context.Context, key string, wanted []Mark) (changed bool, err error) {
	for i := range wanted {
		wanted[i].Toolset, wanted[i].FromFile = key, true
		if problem := wanted[i].Problem(); problem != "" {
			return false, errs.Newf(errs.Invalid, "Tool %s of %s %s.", wanted[i].Tool, key, problem)
		}
	}
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		changed = false
		stored, err := s.rows.MarksOf(tx.Handle, key)
		if err != nil {
			return err
		}
		missing := slices.Clone(wanted)
		for _, r := range stored {
			i := slices.IndexFunc(missing, func(m Mark) bool { return m.Tool == r.ToolName })
			switch {
			case i >= 0 && missing[i] == markOf(r):
				missing = slices.Delete(missing, i, i+1)
				continue
			case i < 0 && !r.FromFile:
				continue
			}
			changed = true
			if err := s.drop(tx, r); err != nil {
				return err
			}
		}
		changed = changed || len(missing) > 0
		return s.add(tx, missing)
	})
	return changed && err == nil, err
}

func (s *Service) drop(tx database.Tx, r rows.Mark) error {
	if _, err := s.rows.DeleteMark(tx, r.ToolsetKey, r.ToolName); err != nil {
		return err
	}
	return s.audit(tx, "tool.unmark", r.ToolsetKey, r.ToolName)
}

// add writes marks of tools that have none.
func (s *Service) add(tx database.Tx, marks []Mark) error {
	for _, m := range marks {
		if err := s.free(tx, m); err != nil {
			return err
		}
		err := s.rows.InsertMark(tx, rows.Mark{
			ToolsetKey: m.Toolset, ToolName: m.Tool, Name: m.Name, ReadOnly: m.ReadOnly, Idempotent: m.Idempotent, FromFile: m.FromFile, CreatedAt: s.now(),
		})
		if err != nil {
			return err
		}
		if err := s.audit(tx, "tool.mark", m.Toolset, m.Tool); err != nil {
			return err
		}
	}
	return nil
}

package mark

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// nameForm is what every language of programs takes as the name of a function.
var nameForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)

// Reserved are functions of every program, whose names no mark takes.
func Reserved() []string {
	return []string{"llm_query", "llm_query_batch", "search_tools", "help", "ToolExecutionError", "refly_tools"}
}

// Problem is why a tool cannot be marked, in words that follow its name; empty
// where it can.
func (m Mark) Problem() string {
	switch {
	case ptc.NeverFromCode(m.Tool) || ptc.NeverFromCode(m.Name):
		return ptc.WhyNeverFromCode
	case !nameForm.MatchString(m.Name):
		return fmt.Sprintf("cannot be a function named %q: a name has up to 64 letters, digits and underscores, and does not begin with a digit", m.Name)
	case slices.Contains(Reserved(), m.Name):
		return fmt.Sprintf("cannot be a function named %s, which every program has", m.Name)
	case !m.ReadOnly && !m.Idempotent:
		return "may be called as a function only if it only reads, or if calling it twice is calling it once"
	}
	return ""
}

// All lists the marks, by the names of their functions. Nobody changes the list.
func (s *Service) All(ctx context.Context) ([]Mark, error) {
	return s.all.Get(ctx, struct{}{}, func(ctx context.Context) ([]Mark, error) {
		stored, err := s.rows.Marks(s.db.Read(ctx))
		list := make([]Mark, len(stored))
		for i, r := range stored {
			list[i] = markOf(r)
		}
		return list, err
	})
}

func markOf(r rows.Mark) Mark {
	return Mark{Toolset: r.ToolsetKey, Tool: r.ToolName, Name: r.Name, ReadOnly: r.ReadOnly, Idempotent: r.Idempotent, FromFile: r.FromFile}
}

// Set marks a tool, or marks it otherwise than before. It is for operators. The
// error is Invalid with a Problem, and Conflict where a file has the mark, or
// another tool the name.
func (s *Service) Set(ctx context.Context, m Mark) error {
	if problem := m.Problem(); problem != "" {
		return errs.Newf(errs.Invalid, "Tool %s of %s %s.", m.Tool, m.Toolset, problem)
	}
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.free(tx, m); err != nil {
			return err
		}
		if _, err := s.rows.DeleteMark(tx, m.Toolset, m.Tool); err != nil {
			return err
		}
		err := s.rows.InsertMark(tx, rows.Mark{
			ToolsetKey: m.Toolset, ToolName: m.Tool, Name: m.Name, ReadOnly: m.ReadOnly, Idempotent: m.Idempotent, CreatedAt: s.now(),
		})
		if err != nil {
			return err
		}
		return s.audit(tx, "tool.mark", m.Toolset, m.Tool)
	})
}

// free refuses a mark that a file has, and a name that another tool has.
func (s *Service) free(tx database.Tx, m Mark) error {
	stored, err := s.rows.Marks(tx.Handle)
	if err != nil {
		return err
	}
	for _, r := range stored {
		same := r.ToolsetKey == m.Toolset && r.ToolName == m.Tool
		switch {
		case same && r.FromFile:
			return errOfFile(m.Toolset, m.Tool)
		case !same && r.Name == m.Name:
			return Taken(markOf(r))
		}
	}
	return nil
}

// Taken is the error for a name that a tool has already.
func Taken(by Mark) error {
	return errs.Newf(errs.Conflict, "The function %s is tool %s of %s already.", by.Name, by.Tool, by.Toolset).Do("Give this one another name with --as.")
}

func errOfFile(key, tool string) error {
	return errs.Newf(errs.Conflict, "The file of %s says that %s is a function.", key, tool).Do("Change that there (sandbox_callable; sandboxCallable of an MCP server), and load the file again.")
}

// Remove takes the mark of a tool away. It is for operators. The error is
// NotFound where there is none, and Conflict where a file has it.
func (s *Service) Remove(ctx context.Context, key, tool string) error {
	return s.db.InTx(ctx, func(tx database.Tx) error {
		stored, err := s.rows.MarksOf(tx.Handle, key)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(stored, func(r rows.Mark) bool { return r.ToolName == tool })
		switch {
		case i < 0:
			return errs.Newf(errs.NotFound, "Tool %s of %s is not marked.", tool, key).Do("`portico tool list` shows those that are.")
		case stored[i].FromFile:
			return errOfFile(key, tool)
		}
		if _, err := s.rows.DeleteMark(tx, key, tool); err != nil {
			return err
		}
		return s.audit(tx, "tool.unmark", key, tool)
	})
}

func (s *Service) audit(tx database.Tx, action, key, tool string) error {
	return audit.Write(tx, audit.Change{By: actor.Actor{UID: audit.Operator}, Action: action, Subject: key + "." + tool}, s.now())
}

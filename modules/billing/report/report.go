// Package report adds up what was charged, for users by tool and model, and for
// operators as the proof that the books balance. It only reads.
package report

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/money"
)

// Service reads the books.
type Service struct {
	db   *database.DB
	rows repository
}

// New returns the service over a database.
func New(db *database.DB) *Service { return &Service{db: db} }

// Line is what one tool or model cost in a report.
type Line struct {
	Type    string       `json:"usageType,omitempty" doc:"tool_call or model_call; absent where a line is a day"`
	Day     string       `json:"day,omitempty" doc:"Such as 2026-01-31, where a line is a day"`
	Toolset string       `json:"toolsetKey,omitempty"`
	Tool    string       `json:"toolName,omitempty"`
	Model   string       `json:"modelName,omitempty"`
	Calls   int          `json:"calls" doc:"Calls that were billed"`
	Total   money.Amount `json:"total" doc:"By the list"`
	Charged money.Amount `json:"charged" doc:"After what is free"`
}

// Statement is what was charged, the dearest first.
type Statement struct {
	Total   money.Amount `json:"total" doc:"By the list"`
	Charged money.Amount `json:"charged" doc:"After what is free"`
	Zone    string       `json:"timeZone,omitempty" doc:"Whose days the lines are, where they are days"`
	Lines   []Line       `json:"lines" nullable:"false"`
}

// Period bounds a report: from the one moment, before the other. Zero is no
// bound.
type Period struct{ From, Until time.Time }

// Report sums up what the actor was charged in a period.
func (s *Service) Report(ctx context.Context, a actor.Actor, p Period) (Statement, error) {
	rows, err := s.rows.sums(s.db.Read(ctx), a.UID, share{Period: p})
	return statementOf(rows), err
}

// RunReport sums up what a run of the actor's cost; a nil version is all of
// them.
func (s *Service) RunReport(ctx context.Context, a actor.Actor, resultID string, version *int) (Statement, error) {
	rows, err := s.rows.sums(s.db.Read(ctx), a.UID, share{resultID: resultID, version: version})
	return statementOf(rows), err
}

// CanvasReport sums up what the actor's runs of a canvas cost. It is nothing for
// a canvas of another user's.
func (s *Service) CanvasReport(ctx context.Context, a actor.Actor, canvasID string) (Statement, error) {
	rows, err := s.rows.sums(s.db.Read(ctx), a.UID, share{canvasID: canvasID})
	return statementOf(rows), err
}

func statementOf(rows []sumRow) Statement {
	r := Statement{Lines: []Line{}}
	for _, row := range rows {
		line := Line{Type: row.UsageType, Model: database.Text(row.ModelName), Calls: row.Calls, Total: row.Due, Charged: row.Charged}
		var meta struct{ ToolName, ToolsetKey string }
		if row.ToolCallMeta != nil && json.Unmarshal([]byte(*row.ToolCallMeta), &meta) == nil {
			line.Toolset, line.Tool = meta.ToolsetKey, meta.ToolName
		}
		r.Total += line.Total
		r.Charged += line.Charged
		r.Lines = append(r.Lines, line)
	}
	slices.SortStableFunc(r.Lines, dearest)
	return r
}

// dearest orders lines.
func dearest(a, b Line) int {
	return cmp.Or(cmp.Compare(b.Charged, a.Charged), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Toolset+a.Tool+a.Model, b.Toolset+b.Tool+b.Model))
}

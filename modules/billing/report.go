package billing

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
)

// Line is what one tool or model cost in a report.
type Line struct {
	Type    string       `json:"usageType" doc:"tool_call or model_call"`
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
	Lines   []Line       `json:"lines" nullable:"false"`
}

// Period bounds a report: from the one moment, before the other. Zero is no
// bound.
type Period struct{ From, Until time.Time }

// Report sums up what the actor was charged in a period.
func (s *Service) Report(ctx context.Context, a actor.Actor, p Period) (Statement, error) {
	rows, err := s.rows.sums(s.DB.Read(ctx), a.UID, share{Period: p})
	return statementOf(rows), err
}

// RunReport sums up what a run of the actor's cost; a nil version is all of
// them.
func (s *Service) RunReport(ctx context.Context, a actor.Actor, resultID string, version *int) (Statement, error) {
	rows, err := s.rows.sums(s.DB.Read(ctx), a.UID, share{resultID: resultID, version: version})
	return statementOf(rows), err
}

// CanvasReport sums up what the actor's runs of a canvas cost. It is nothing for
// a canvas of another user's.
func (s *Service) CanvasReport(ctx context.Context, a actor.Actor, canvasID string) (Statement, error) {
	rows, err := s.rows.sums(s.DB.Read(ctx), a.UID, share{canvasID: canvasID})
	return statementOf(rows), err
}

func statementOf(rows []sumRow) Statement {
	r := Statement{Lines: []Line{}}
	for _, row := range rows {
		line := Line{Type: row.UsageType, Model: text(row.ModelName), Calls: row.Calls, Total: row.Due, Charged: row.Charged}
		var meta struct{ ToolName, ToolsetKey string }
		if row.ToolCallMeta != nil && json.Unmarshal([]byte(*row.ToolCallMeta), &meta) == nil {
			line.Toolset, line.Tool = meta.ToolsetKey, meta.ToolName
		}
		r.Total += line.Total
		r.Charged += line.Charged
		r.Lines = append(r.Lines, line)
	}
	slices.SortStableFunc(r.Lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Charged, a.Charged), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Toolset+a.Tool+a.Model, b.Toolset+b.Tool+b.Model))
	})
	return r
}

// Recharges returns a page of what the actor was given, newest first.
func (s *Service) Recharges(ctx context.Context, a actor.Actor, p httpapi.PageQuery) (httpapi.Page[Lot], error) {
	w, err := p.Window()
	if err != nil {
		return httpapi.Page[Lot]{}, err
	}
	rows, total, err := s.rows.recharges(s.DB.Read(ctx), a.UID, w)
	if err != nil {
		return httpapi.Page[Lot]{}, err
	}
	return httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r rechargeRow) int64 { return r.PK }), lotOf), nil
}

func lotOf(r rechargeRow) Lot {
	return Lot{
		ID: r.RechargeID, Source: r.Source, Text: text(r.Description), Amount: r.Amount, Left: r.Balance,
		ExpiresAt: r.ExpiresAt.UTC(), CreatedAt: r.CreatedAt.UTC(),
	}
}

// Lot is a recharge as it was given, and what is left of it.
type Lot struct {
	ID, Source, Text     string
	Amount, Left         money.Amount
	ExpiresAt, CreatedAt time.Time
}

package record

import (
	"context"
	"encoding/json"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
)

// RunProgram is a program of a run: what it takes to run it again, and what came
// of it.
type RunProgram struct {
	CallID   string
	CanvasID string
	Status   Status
	Given    ProgramInput
	// Error says why it failed, and ErrorCode names the failure.
	Error, ErrorCode string
	Stdout, Stderr   string
	ExitCode         *int   // nil while it executes, and where it is not known
	Ended            string // how, such as timed_out; empty while it executes
	// Cut says that the output is not whole. Ref is where a longer one is, if
	// there is one.
	Cut bool
	Ref string
	// Calls is how many calls it made.
	Calls     int64
	CreatedAt time.Time
	EndedAt   time.Time // zero while it executes
}

// A page of programs has so many at most, and ends earlier once it has so many
// bytes. So many are read at once.
const (
	maxProgramsPage  = 20
	maxProgramsBytes = 8 << 20
	programsAtOnce   = 4
)

// Programs returns a page of the programs of a run of the actor's, in the order in
// which they began. cursor is NextCursor of the page before; empty for the first.
func (s *Service) Programs(ctx context.Context, a actor.Actor, resultID string, version *int, cursor string) (page httpapi.Page[RunProgram], err error) {
	after, err := httpapi.DecodeCursor(cursor)
	if err != nil {
		return page, err
	}
	r, err := s.runs.Get(ctx, a, resultID, version)
	if err != nil {
		return page, err
	}
	for size := 0; ; {
		rows, _, err := s.rows.programs(s.db.Read(ctx), r.Ref(), database.Window{After: after, Limit: programsAtOnce})
		if err != nil {
			return page, err
		}
		more := len(rows) > programsAtOnce
		for _, row := range rows[:min(len(rows), programsAtOnce)] {
			size += len(row.Input) + len(row.Output)
			page.Items = append(page.Items, programShown(row.call()))
			after = row.PK
		}
		if !more {
			return page, s.countCalls(ctx, a, page.Items)
		}
		if size >= maxProgramsBytes || len(page.Items) >= maxProgramsPage {
			page.NextCursor = httpapi.EncodeCursor(after)
			return page, s.countCalls(ctx, a, page.Items)
		}
	}
}

// countCalls fills in how many calls programs made.
func (s *Service) countCalls(ctx context.Context, a actor.Actor, programs []RunProgram) error {
	callIDs := make([]string, len(programs))
	for i, p := range programs {
		callIDs[i] = p.CallID
	}
	counts, err := s.rows.countChildren(s.db.Read(ctx), a.UID, callIDs)
	for i := range programs {
		programs[i].Calls = counts[programs[i].CallID]
	}
	return err
}

// programShown reads a program from its record. What a service beside this server
// recorded may have any form: what cannot be read of it is left out, and said to
// be cut.
func programShown(c Call) RunProgram {
	p := RunProgram{CallID: c.CallID, CanvasID: c.CanvasID, Status: c.Status, Error: c.Error, CreatedAt: c.CreatedAt}
	var in struct {
		Input ProgramInput `json:"input"`
	}
	p.Cut = json.Unmarshal(c.Input, &in) != nil
	p.Given = in.Input
	if !c.Ended() {
		return p
	}
	p.EndedAt = c.UpdatedAt
	answer, err := c.Answer()
	if err != nil {
		p.Cut = true
		return p
	}
	p.ErrorCode = answer.ErrorCode
	if answer.Truncated != nil {
		p.Cut, p.Ref = true, answer.Truncated.Ref
	}
	var out struct {
		Stdout, Stderr               string
		StdoutDropped, StderrDropped int64
		ExitCode                     *int
		Status                       string
	}
	if len(answer.Data) > 0 && json.Unmarshal(answer.Data, &out) != nil {
		p.Cut = true
	}
	p.Stdout, p.Stderr, p.ExitCode, p.Ended = out.Stdout, out.Stderr, out.ExitCode, out.Status
	p.Cut = p.Cut || out.StdoutDropped+out.StderrDropped > 0
	return p
}

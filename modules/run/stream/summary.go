package stream

import (
	"context"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// CallSummary is a call as streams of summaries show it. Times are milliseconds
// since 1970.
type CallSummary struct {
	CallID    string        `json:"callId"`
	ParentID  string        `json:"parentId,omitempty" doc:"The program that made it; not said again at its end"`
	Toolset   string        `json:"toolset,omitempty" doc:"The toolset's key; absent where the record is gone"`
	Tool      string        `json:"tool,omitempty"`
	Line      int           `json:"line,omitempty" doc:"The line of the program that made it, as the program says it"`
	Status    record.Status `json:"status,omitempty" enum:"waiting,executing,completed,failed"`
	Arguments string        `json:"arguments,omitempty" doc:"The first 160 characters of the JSON text; one that is cut ends with …"`
	Error     string        `json:"error,omitempty" doc:"The first 300 characters of why it failed"`
	Credits   string        `json:"credits,omitempty" doc:"What was charged; absent where nothing was" example:"0.02"`
	Bytes     *int64        `json:"bytes,omitempty" doc:"Size of the whole result"`
	Tokens    *int64        `json:"tokens,omitempty" doc:"About how many tokens the result has: a quarter of its bytes"`
	StartedAt int64         `json:"startedAt,omitempty" doc:"Milliseconds since 1970"`
	EndedAt   int64         `json:"endedAt,omitempty" doc:"Milliseconds since 1970; absent until it has ended"`
}

// summaryEvent is an event about a call in a stream of summaries.
type summaryEvent struct {
	header
	IsPTC     bool        `json:"isPtc,omitempty"`
	MessageID string      `json:"messageId,omitempty" doc:"The message about the call; those of programs have none"`
	Call      CallSummary `json:"call"`
	Approval  *Approval   `json:"approval,omitempty"`
}

// nextSummaries is next for a stream of summaries.
func (s *Service) nextSummaries(ctx context.Context, a actor.Actor, r run.Run, after int64) (p page, err error) {
	events, err := s.runs.Events(ctx, a, run.EventFilter{ResultID: r.ResultID, Version: r.Version, After: after, Limit: summaries})
	if err != nil {
		return p, err
	}
	var calls map[string]record.Summary
	if callIDs := callsOf(events); len(callIDs) > 0 {
		if calls, err = s.calls.Summaries(ctx, a, callIDs); err != nil {
			return p, err
		}
	}
	return pageOf(events, func(e run.Event) ([]byte, error) { return renderSummary(r, e, calls) })
}

func renderSummary(r run.Run, e run.Event, calls map[string]record.Summary) ([]byte, error) {
	h := header{Event: e.Type, ResultID: r.ResultID, Version: r.Version}
	if !isCall(e.Type) {
		return renderPayload(h, e)
	}
	out := summaryEvent{header: h, IsPTC: ids.MadeByCode(e.CallID), Call: CallSummary{CallID: e.CallID}}
	said, err := payloadOf(e)
	if err != nil {
		return nil, err
	}
	out.Approval = said.Approval
	c, ok := calls[e.CallID]
	out.IsPTC = out.IsPTC || c.Origin == ids.PTC
	if !out.IsPTC {
		out.MessageID = ids.MessageOf(e.CallID)
	}
	if !ok { // the record is gone; that the event happened is not
		return encode(out)
	}
	out.Call = CallSummary{
		CallID: c.CallID, ParentID: c.ParentID, Toolset: c.Toolset, Tool: c.Tool, Line: c.Line, Status: c.Status, Arguments: c.Arguments,
		StartedAt: c.CreatedAt.UnixMilli(),
	}
	if status := before(e.Type); status != "" {
		out.Call.Status = status
		return encode(out)
	}
	if c.Status != record.Completed && c.Status != record.Failed {
		return encode(out)
	}
	out.Call.ParentID = "" // a run has thousands of these events
	out.Call.Error, out.Call.Bytes, out.Call.EndedAt = c.Error, c.Bytes, c.UpdatedAt.UnixMilli()
	if c.Bytes != nil {
		out.Call.Tokens = new(run.Tokens(*c.Bytes))
	}
	if c.Credits != nil {
		out.Call.Credits = c.Credits.String()
	}
	return encode(out)
}

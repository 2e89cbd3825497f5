package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/program/mcpserver/question"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool/approval"
)

// attend waits for a program. In a session it also asks the person in front of the
// client about each call that waits, one after the other, and goes on with what they
// say, until the time is over.
func (u user) attend(ctx context.Context, req *mcp.CallToolRequest, callID string, w waiting) (program.State, error) {
	can := u.asks(req)
	until := time.Now().Add(w.most)
	left := map[string]bool{} // what is decided elsewhere, or later
	for {
		st, err := u.wait(ctx, req, callID, &w)
		if err != nil || st.Ended || !inSession(req) || !can.Any() {
			return st, err
		}
		if w.most = time.Until(until); w.most <= 0 {
			return st, nil
		}
		a, q, err := u.next(ctx, st, can, left)
		if err != nil || q == nil {
			return st, err
		}
		u.tellOfQuestion(ctx, req, a, w.told)
		said, err := u.elicit(ctx, req, a, q, until)
		switch {
		case errors.Is(err, errGone):
			return st, err
		case errors.Is(err, errElsewhere): // somebody was faster
		case err != nil: // too late, or the client cannot after all
			u.deps.Logger.DebugContext(ctx, "a client does not ask its user", "error", err)
			left[a.CallID] = true
		case said.Action == "decline" || said.Action == "accept" && q.URL == "":
			if err := u.decide(ctx, asked{CallID: a.CallID, Since: a.CreatedAt}, said); err != nil {
				return st, err
			}
		default:
			left[a.CallID] = true
			w.patient = w.patient || said.Action == "accept"
		}
		w.most = time.Until(until)
	}
}

// next is the first call that waits and that this client can ask about whole; there is
// no question where there is none.
func (u user) next(ctx context.Context, st program.State, can question.Ways, left map[string]bool) (approval.Approval, *mcp.ElicitParams, error) {
	for _, c := range st.ToolCalls {
		if c.Status != record.Waiting || left[c.CallID] {
			continue
		}
		a, err := u.deps.Approvals.Get(ctx, u.who, c.CallID)
		if err != nil {
			return approval.Approval{}, nil, err
		}
		if q := question.About(a, can, u.decision(a.CallID)); q != nil && a.State == approval.Waiting {
			return a, q, nil
		}
	}
	return approval.Approval{}, nil, nil
}

// tellOfQuestion tells a client that wants progress why there is none.
func (u user) tellOfQuestion(ctx context.Context, req *mcp.CallToolRequest, a approval.Approval, told int) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return
	}
	// Between the calls before and the next one: progress only grows.
	err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: token, Progress: float64(told) + 0.5, Message: fmt.Sprintf("%s waits for your decision", a.Tool),
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		u.deps.Logger.DebugContext(ctx, "a client is not told of progress", "error", err)
	}
}

var (
	errElsewhere = errors.New("the call waits no more")
	errStopping  = errors.New("the server stops")
)

// elicit asks one question within the answer to a call, until an answer comes, the time
// is over, the call is decided elsewhere, or nobody reads the question.
func (u user) elicit(ctx context.Context, req *mcp.CallToolRequest, a approval.Approval, q *mcp.ElicitParams, until time.Time) (*mcp.ElicitResult, error) {
	ctx, end := context.WithDeadline(ctx, until)
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() { cancel(u.watch(ctx, a)) })
	said, err := req.Session.Elicit(ctx, q)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return said, err
}

// watch says why a question need not be answered any more.
func (u user) watch(ctx context.Context, a approval.Approval) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-u.gone:
			return errGone
		case <-u.Kept.Stopping():
			return errStopping
		case <-tick.C:
		}
		now, err := u.deps.Approvals.Get(ctx, u.who, a.CallID)
		if err == nil && (now.State != approval.Waiting || !now.CreatedAt.Equal(a.CreatedAt)) {
			return errElsewhere
		}
	}
}

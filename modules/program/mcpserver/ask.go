package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/program/mcpserver/question"
	"github.com/portico-run/portico/modules/program/mcpserver/wire"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool/approval"
)

// inSession reports whether a request is one of a session, which only clients of the
// older era have.
func inSession(req *mcp.CallToolRequest) bool { return req.Session.ID() != "" }

// asks says how the client of a request asks a person. Where the key may not decide,
// there is nothing to ask.
func (u user) asks(req *mcp.CallToolRequest) question.Ways {
	if !inSession(req) && req.ProtocolVersion() < wire.FirstAsking || u.may(everything) != nil {
		return question.Ways{}
	}
	return question.WaysOf(req.ClientCapabilities())
}

// Bounds of questions.
const (
	maxAsked     = 10 // at once
	answerWithin = 24 * time.Hour
)

// state is what a client keeps between a question and its answer. It is sealed, and
// counts for the same user and the same call only.
type state struct {
	UID       string    `json:"uid"`
	Execution string    `json:"execution"`
	Call      [32]byte  `json:"call"`
	Asked     []asked   `json:"asked"`
	Until     time.Time `json:"until"`
}

// asked is one question. A call may have several, one after the other.
type asked struct {
	CallID string    `json:"callId"`
	Since  time.Time `json:"since"` // when the call began to wait
	// Page is set where a page is to be opened, and decides.
	Page bool `json:"page"`
}

// sameCall is what a call and its repetition have in common.
func sameCall(req *mcp.CallToolRequest, in any) ([32]byte, error) {
	text, err := json.Marshal([]any{req.Params.Name, in})
	return sha256.Sum256(text), err
}

// ask makes the question to a person about the calls that wait. It reports whether
// there is one: the client may not be able to ask.
func (u user) ask(ctx context.Context, req *mcp.CallToolRequest, in any, st program.State, left map[string]bool) (*mcp.CallToolResult, bool, error) {
	can := u.asks(req)
	if !can.Any() || st.Ended || inSession(req) { // attend has asked
		return nil, false, nil
	}
	questions := mcp.InputRequestMap{}
	s := state{UID: u.who.UID, Execution: st.CallID, Until: u.deps.Settings.Now().Add(answerWithin)}
	for _, c := range st.ToolCalls {
		if c.Status != record.Waiting || left[c.CallID] || len(questions) == maxAsked {
			continue
		}
		a, err := u.deps.Approvals.Get(ctx, u.who, c.CallID)
		if err != nil {
			return nil, false, err
		}
		q := question.About(a, can, u.decision(a.CallID))
		if q == nil || a.State != approval.Waiting {
			continue
		}
		questions[c.CallID] = q
		s.Asked = append(s.Asked, asked{CallID: c.CallID, Since: a.CreatedAt, Page: q.URL != ""})
	}
	if len(questions) == 0 {
		return nil, false, nil
	}
	var err error
	if s.Call, err = sameCall(req, in); err != nil {
		return nil, false, err
	}
	kept, err := json.Marshal(s)
	if err != nil {
		return nil, false, err
	}
	return &mcp.CallToolResult{InputRequests: questions, RequestState: u.deps.Settings.Box.Seal(kept)}, true, nil
}

var errOtherState = errs.New(errs.Invalid, "requestState belongs to no such call of yours, or is too old.").Do("Send it with the call that it answers; resume_code waits for a program whose handle you have.")

// answered goes on with the program that asked, with what a person said.
func (u user) answered(ctx context.Context, req *mcp.CallToolRequest, in any, most time.Duration) (*mcp.CallToolResult, execution, error) {
	if err := u.may(everything); err != nil {
		return broken(err)
	}
	kept, err := u.deps.Settings.Box.Open(req.Params.RequestState)
	if err != nil {
		return broken(errOtherState)
	}
	call, err := sameCall(req, in)
	if err != nil {
		return broken(err)
	}
	var s state
	if json.Unmarshal(kept, &s) != nil || s.UID != u.who.UID || s.Call != call || u.deps.Settings.Now().After(s.Until) {
		return broken(errOtherState)
	}
	leave, err := u.enter(u.who.UID)
	if err != nil {
		return broken(err)
	}
	defer leave()
	left := map[string]bool{}
	w := waiting{most: most}
	for _, q := range s.Asked {
		said, ok := req.Params.InputResponses[q.CallID].(*mcp.ElicitResult)
		switch {
		case !ok: // it is asked again
		case said.Action == "decline" || said.Action == "accept" && !q.Page:
			if err := u.decide(ctx, q, said); err != nil {
				return lost(s.Execution, err)
			}
		default: // it is decided elsewhere, or later
			left[q.CallID] = true
			w.patient = w.patient || said.Action == "accept"
		}
	}
	st, err := u.wait(ctx, req, s.Execution, &w)
	if err != nil {
		return lost(s.Execution, err)
	}
	return u.told(ctx, req, in, st, left)
}

// decide settles a call that waits, as a person said. What is settled stays as it is:
// the answer came twice, or somebody was faster elsewhere.
func (u user) decide(ctx context.Context, q asked, said *mcp.ElicitResult) error {
	a, err := u.deps.Approvals.Get(ctx, u.who, q.CallID)
	if err != nil || !a.CreatedAt.Equal(q.Since) {
		return err
	}
	r := approval.Ruling{CallID: q.CallID, Decision: approval.Refuse}
	switch {
	case said.Action != "accept":
	case a.Question == nil:
		decision, _ := said.Content["decision"].(string)
		r.Reason, _ = said.Content["reason"].(string)
		r.Decision = approval.Decision(decision)
	default:
		r.Decision = approval.Allow
		if len(a.Question.Schema) > 0 {
			if r.Arguments, err = json.Marshal(said.Content); err != nil {
				return err
			}
		}
	}
	_, err = u.deps.Approvals.Decide(ctx, u.who, r)
	if errs.CodeOf(err) == errs.Settled {
		return nil
	}
	return err
}

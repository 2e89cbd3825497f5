package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool/approval"
)

// ways are the ways in which a client asks the person in front of it.
type ways struct{ form, page bool }

func (w ways) any() bool { return w.form || w.page }

// firstAsking is the revision of the protocol since which a call is answered with a
// question, and comes again with what the person said. Clients of older ones keep a
// connection for that, which this server does not have.
const firstAsking = "2026-07-28"

// asks says how the client of a request asks a person. Where the key may not decide,
// there is nothing to ask.
func (u user) asks(req *mcp.CallToolRequest) ways {
	can := req.ClientCapabilities()
	if req.ProtocolVersion() < firstAsking || can == nil || can.Elicitation == nil || u.may(everything) != nil {
		return ways{}
	}
	e := can.Elicitation
	return ways{form: e.Form != nil || e.URL == nil, page: e.URL != nil}
}

// Bounds of questions.
const (
	maxAsked     = 10 // at once
	maxShown     = 2000
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
	if !can.any() || st.Ended {
		return nil, false, nil
	}
	questions := mcp.InputRequestMap{}
	s := state{UID: u.who.UID, Execution: st.CallID, Until: time.Now().Add(answerWithin)}
	for _, c := range st.ToolCalls {
		if c.Status != record.Waiting || left[c.CallID] || len(questions) == maxAsked {
			continue
		}
		a, err := u.deps.Approvals.Get(ctx, u.who, c.CallID)
		if err != nil {
			return nil, false, err
		}
		q := u.question(a, can)
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

// question asks about one call; nil where this client cannot ask it whole.
func (u user) question(a approval.Approval, can ways) *mcp.ElicitParams {
	message := about(a)
	page := u.decision(a.CallID)
	if a.Question != nil {
		message = fmt.Sprintf("%s, called as %s, asks: %s", a.Question.From, a.Tool, a.Question.Message)
	}
	switch {
	case can.form && len([]rune(message)) <= maxShown && (a.Question == nil || a.Question.URL == ""):
		return &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: form(a)}
	case can.page && page != "":
		return &mcp.ElicitParams{Mode: "url", Message: "A call of " + a.Tool + " waits for your decision.", URL: page, ElicitationID: a.CallID}
	}
	return nil
}

// about says everything that a person needs to decide about a call.
func about(a approval.Approval) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A program wants to call %s of %s", a.Tool, a.Toolset)
	for _, part := range [][2]string{{" at ", a.Host}, {", for ", a.Price}} {
		if part[1] != "" {
			b.WriteString(part[0] + part[1])
		}
	}
	if a.Price != "" {
		b.WriteString(" credits")
	}
	fmt.Fprintf(&b, ".\nArguments: %s", a.Arguments)
	if a.Reason != "" {
		fmt.Fprintf(&b, "\nWhy you are asked: %s", a.Reason)
	}
	return b.String()
}

// form is the schema of an answer.
func form(a approval.Approval) any {
	if a.Question != nil {
		if len(a.Question.Schema) > 0 {
			return a.Question.Schema
		}
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return json.RawMessage(`{"type":"object","properties":{` +
		`"decision":{"type":"string","title":"Decision","description":"allow: this call; allow_always: this call, and later ones with the same arguments; refuse: none","enum":["allow","allow_always","refuse"]},` +
		`"reason":{"type":"string","title":"Reason","description":"Why it is refused; the program is told","maxLength":1000}},"required":["decision"]}`)
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
	if json.Unmarshal(kept, &s) != nil || s.UID != u.who.UID || s.Call != call || time.Now().After(s.Until) {
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
	st, err := u.wait(ctx, req, s.Execution, w)
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

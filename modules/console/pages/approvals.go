package pages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/portico-run/portico/modules/console/form"
)

// approval is a call that waits for a decision, or waited.
type approval struct {
	CallID, ResultID, ParentID, Toolset, Tool string
	Version, Line                             *int
	Arguments, ChangedArguments               json.RawMessage
	Host, Reason, State                       string
	Price                                     json.Number
	CreatedAt, ExpiresAt                      time.Time
	DecidedAt                                 *time.Time
	DecidedBy, Decision, Note                 string
	// Question is what the tool asks; nil where the call waits to be allowed.
	Question *question
}

// question is what a tool asks in the middle of a call.
type question struct {
	From, Message, URL string
	Schema             json.RawMessage
}

// Host is where the page is that the question wants visited.
func (q question) Host() string {
	u, err := url.Parse(q.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return u.Host
}

// Waiting reports whether it can be decided.
func (a approval) Waiting() bool { return a.State == "waiting" }

// Text is the arguments as they are shown: whole.
func (a approval) Text() string { return indent(a.Arguments) }

// ChangedText is the arguments that the call is made with where the decision
// changed them; empty where it did not.
func (a approval) ChangedText() string { return indent(a.ChangedArguments) }

type approvalsView struct {
	Approvals []approval
	All       bool
	Next      string
}

const approvalsAPI = "/v1/tool/approvals"

func (p *Pages) approvals(v *Visit) (Answer, error) {
	query := pick(v.R.URL.Query(), "cursor", "state")
	if query.Get("state") != "all" {
		query.Set("state", "waiting")
	}
	var page list[approval]
	if err := v.get(approvalsAPI, query, &page); err != nil {
		return Answer{}, err
	}
	view := approvalsView{Approvals: page.Items, All: query.Get("state") == "all", Next: v.next(page.NextCursor)}
	return Answer{Title: "Approvals", Template: "approvals", Data: view}, nil
}

// approvalView is the page of one call. Change is the form of its arguments, as
// the tool describes them, or as JSON where it does not.
type approvalView struct {
	approval

	Change  form.View
	Changes bool   // the form is open
	Typed   string // the reason for refusing
	Problem *Problem
}

func (p *Pages) approval(v *Visit) (Answer, error) {
	return p.showApproval(v, approvalView{}, nil, nil, http.StatusOK)
}

// showApproval shows a call that waits, with what was typed, if something was.
func (p *Pages) showApproval(v *Visit, view approvalView, typed url.Values, wrong []form.Problem, status int) (Answer, error) {
	id := v.R.PathValue("call")
	if err := v.get(approvalsAPI+"/"+url.PathEscape(id), nil, &view.approval); err != nil {
		return Answer{}, err
	}
	f, begin := p.valuesOf(v, view.approval)
	if typed == nil {
		values, err := f.Values(begin)
		if err != nil {
			return Answer{}, err
		}
		typed = values
	}
	view.Change, view.Changes = f.View("change", typed, wrong), len(wrong) > 0
	return Answer{Title: view.Toolset + "." + view.Tool, Template: "approval", Data: view, Status: status}, nil
}

// valuesOf is the form of what can be changed of a call that waits, and what is in it
// at first: its arguments, or the answer to its question.
func (p *Pages) valuesOf(v *Visit, a approval) (f *form.Form, begin json.RawMessage) {
	if a.Question == nil {
		return p.argumentsOf(v, a.Toolset, a.Tool), a.Arguments
	}
	if f, err := form.New(a.Question.Schema); err == nil {
		return f, json.RawMessage("{}")
	}
	return p.anyObject, json.RawMessage("{}")
}

// argumentsOf is the form of a tool's arguments. A tool that is not described
// any more still has its arguments, as JSON.
func (p *Pages) argumentsOf(v *Visit, toolsetKey, name string) *form.Form {
	if t, err := describe(v, toolsetKey); err == nil {
		for _, candidate := range t.Tools {
			if candidate.Name != name {
				continue
			}
			if f, err := form.New(candidate.InputSchema); err == nil {
				return f
			}
		}
	}
	return p.anyObject
}

// decide sends a decision. One that comes too late shows what was decided.
func (p *Pages) decide(v *Visit) (Answer, error) {
	posted, err := v.posted()
	if err != nil {
		return Answer{}, err
	}
	id := v.R.PathValue("call")
	decision := map[string]any{"callId": id, "decision": posted.Get("decision")}
	if reason := posted.Get("reason"); reason != "" {
		decision["reason"] = reason
	}
	if posted.Get("decision") == "change" {
		var a approval
		if err := v.get(approvalsAPI+"/"+url.PathEscape(id), nil, &a); err != nil {
			return Answer{}, err
		}
		f, _ := p.valuesOf(v, a)
		arguments, wrong := f.Read(posted)
		if len(wrong) > 0 {
			return p.showApproval(v, approvalView{}, posted, wrong, http.StatusUnprocessableEntity)
		}
		decision["decision"], decision["arguments"] = "allow", arguments
	}
	err = v.send(http.MethodPost, "/v1/tool/call/decide", decision, nil)
	if refused, ok := ProblemOf(err); ok && (refused.Status == http.StatusConflict || refused.Status == http.StatusBadRequest) {
		return p.showApproval(v, approvalView{Problem: &refused, Typed: posted.Get("reason")}, nil, nil, refused.Status)
	}
	if err != nil {
		return Answer{}, err
	}
	return Answer{To: "/approvals/" + url.PathEscape(id)}, nil
}

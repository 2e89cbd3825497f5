package approval

import (
	"encoding/json"
	"time"

	"github.com/portico-run/portico/modules/run"
)

// Approval is a call that waits, or waited, for somebody to allow it.
type Approval struct {
	CallID, UID string
	ResultID    string // empty outside of runs
	Version     int
	ParentID    string // the program that makes it; empty for others
	Line        int
	Toolset     string
	Tool        string
	Arguments   json.RawMessage
	// Changed are the arguments that it is made with where the decision changed
	// them.
	Changed json.RawMessage
	// Host is where it goes, and Price what it costs at least; empty where that is
	// not known, and where it is nothing.
	Host, Price string
	Reason      string // why it waits
	// Question is what the tool asks; nil where the call waits to be allowed. Its
	// answer is in Changed.
	Question  *Asked
	State     State
	Decision  Decision
	DecidedBy string // the user; audit.Operator for an operator; empty where nobody did
	Note      string // why it was refused, or not decided
	CreatedAt time.Time
	ExpiresAt time.Time
	DecidedAt time.Time // zero while it waits
}

// Permission is what a user has allowed for later calls.
type Permission struct {
	ID       string
	ResultID string // the run that it is for; empty for all
	Toolset  string
	Tool     string
	// Pattern are the arguments that are allowed; nil for any.
	Pattern   json.RawMessage
	CreatedAt time.Time
}

func (r approvalRow) inRun() bool { return r.ResultID != run.NoResult }

func (r approvalRow) approval() Approval {
	a := Approval{
		CallID: r.CallID, UID: r.UID, ParentID: r.ParentID, Line: r.Line, Toolset: r.Toolset, Tool: r.Tool,
		Arguments: json.RawMessage(r.Arguments), Host: r.Host, Price: r.Price, Reason: r.Reason, State: r.State, Decision: r.Decision,
		DecidedBy: r.DecidedBy, Note: r.Note, CreatedAt: r.CreatedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(),
	}
	if r.inRun() {
		a.ResultID, a.Version = r.ResultID, r.Version
	}
	if r.ChangedArguments != nil {
		a.Changed = json.RawMessage(*r.ChangedArguments)
	}
	if r.Question != nil {
		a.Question = &Asked{}
		if json.Unmarshal([]byte(*r.Question), a.Question) != nil {
			a.Question.Message = *r.Question // never shown as something else
		}
	}
	if r.DecidedAt != nil {
		a.DecidedAt = r.DecidedAt.UTC()
	}
	return a
}

func (r permissionRow) permission() Permission {
	p := Permission{ID: r.PermissionID, ResultID: r.ResultID, Toolset: r.Toolset, Tool: r.Tool, CreatedAt: r.CreatedAt.UTC()}
	if r.Pattern != "" {
		p.Pattern = json.RawMessage(r.Pattern)
	}
	return p
}

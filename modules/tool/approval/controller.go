package approval

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

type controller struct{ service *Service }

func (c controller) register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-approvals", Method: http.MethodGet, Path: "/v1/tool/approvals", Tag: "approvals",
		Summary:     "Calls that wait for somebody to allow them",
		Description: "The oldest first. With state=all, those that were decided as well, the newest first.",
	}, c.list)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-approval", Method: http.MethodGet, Path: "/v1/tool/approvals/{callId}", Tag: "approvals",
		Summary: "One call that waits, or waited", Errors: []errs.Code{errs.NotFound},
	}, c.get)
	httpapi.Register(api, httpapi.Operation{
		ID: "decide-tool-call", Method: http.MethodPost, Path: "/v1/tool/call/decide", Tag: "approvals",
		Summary: "Allow or refuse a call that waits",
		Description: "allow is for this call, allow_run for all calls of the tool in this run, allow_always for all calls of it that pattern covers. " +
			"Whoever decides first decides; later ones are answered 409 with APPROVAL_SETTLED. Keys of programs are refused.",
		Errors: []errs.Code{errs.NotFound, errs.Settled, errs.TooLarge, errs.Conflict},
	}, c.decide)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-approval-permissions", Method: http.MethodGet, Path: "/v1/tool/approvals/permissions", Tag: "approvals",
		Summary: "What you have allowed for later calls, the newest first",
	}, c.permissions)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-approval-permission", Method: http.MethodDelete, Path: "/v1/tool/approvals/permissions/{permissionId}", Tag: "approvals",
		Summary: "Take a permission back: such calls wait again", Errors: []errs.Code{errs.NotFound},
	}, c.withdraw)
}

type listInput struct {
	httpapi.PageQuery

	State string `query:"state" enum:"waiting,all" default:"waiting" doc:"all for those that were decided as well"`
}

// approvalBody is an approval as answers and the webhook have it.
type approvalBody struct {
	CallID    string          `json:"callId"`
	ResultID  string          `json:"resultId,omitempty" doc:"The run that it belongs to"`
	Version   int             `json:"version,omitempty"`
	ParentID  string          `json:"parentId,omitempty" doc:"The program that makes it"`
	Line      int             `json:"line,omitempty" doc:"The line of the program, as the program says it"`
	Toolset   string          `json:"toolset" example:"demo"`
	Tool      string          `json:"tool" example:"send_mail"`
	Arguments json.RawMessage `json:"arguments" documented:"type=object additionalProperties=true" doc:"What the call was to be made with"`
	Changed   json.RawMessage `json:"changedArguments,omitempty" documented:"type=object additionalProperties=true" doc:"What it is made with where the decision changed that"`
	Host      string          `json:"host,omitempty" doc:"Where it goes" example:"api.example.com"`
	Price     string          `json:"price,omitempty" doc:"Credits that it costs at least; absent where it costs none" example:"0.02"`
	Reason    string          `json:"reason" doc:"Why it waits"`
	Question  *Asked          `json:"question,omitempty" doc:"What the tool asks, where the call waits for an answer and not to be allowed; the answer is in changedArguments"`
	State     State           `json:"state" enum:"waiting,allowed,refused,expired"`
	CreatedAt time.Time       `json:"createdAt"`
	ExpiresAt time.Time       `json:"expiresAt" doc:"When it is refused by itself"`
	DecidedAt *time.Time      `json:"decidedAt,omitempty"`
	DecidedBy string          `json:"decidedBy,omitempty" doc:"The user's id, or operator"`
	Decision  Decision        `json:"decision,omitempty" enum:"allow,allow_run,allow_always,refuse"`
	Note      string          `json:"note,omitempty" doc:"Why it was refused, or not decided"`
}

func toBody(a Approval) approvalBody {
	b := approvalBody{
		CallID: a.CallID, ResultID: a.ResultID, Version: a.Version, ParentID: a.ParentID, Line: a.Line, Toolset: a.Toolset, Tool: a.Tool,
		Arguments: a.Arguments, Changed: a.Changed, Host: a.Host, Price: a.Price, Reason: a.Reason, Question: a.Question, State: a.State,
		CreatedAt: a.CreatedAt, ExpiresAt: a.ExpiresAt, DecidedBy: a.DecidedBy, Decision: a.Decision, Note: a.Note,
	}
	if !a.DecidedAt.IsZero() {
		b.DecidedAt = &a.DecidedAt
	}
	return b
}

func (c controller) list(ctx context.Context, who actor.Actor, in *listInput) (httpapi.Page[approvalBody], error) {
	page, err := c.service.List(ctx, who, in.State == "all", in.PageQuery)
	return httpapi.MapPage(page, toBody), err
}

type getInput struct {
	CallID string `path:"callId" maxLength:"128" doc:"The call"`
}

func (c controller) get(ctx context.Context, who actor.Actor, in *getInput) (approvalBody, error) {
	a, err := c.service.Get(ctx, who, in.CallID)
	return toBody(a), err
}

type decideInput struct {
	Body struct {
		CallID    string          `json:"callId" minLength:"1" maxLength:"128" doc:"The call"`
		Decision  Decision        `json:"decision" enum:"allow,allow_run,allow_always,refuse"`
		Arguments json.RawMessage `json:"arguments,omitempty" documented:"type=object|null additionalProperties=true" doc:"To make the call with others; they are checked against the tool's schema. Where the call waits for an answer, the answer, as question.schema describes it"`
		Pattern   json.RawMessage `json:"pattern,omitempty" documented:"type=object|null additionalProperties=true" doc:"With allow_always: which arguments, by name, with * for any value; exactly those of the call when left out"`
		Reason    string          `json:"reason,omitempty" maxLength:"1000" doc:"For the program or the model whose call is refused"`
	}
}

func (c controller) decide(ctx context.Context, who actor.Actor, in *decideInput) (approvalBody, error) {
	b := in.Body
	a, err := c.service.Decide(ctx, who, Ruling{CallID: b.CallID, Decision: b.Decision, Arguments: b.Arguments, Pattern: b.Pattern, Reason: b.Reason})
	return toBody(a), err
}

// permissionBody is a permission as answers have it.
type permissionBody struct {
	ID        string          `json:"permissionId"`
	ResultID  string          `json:"resultId,omitempty" doc:"The run that it is for; all when absent"`
	Toolset   string          `json:"toolset"`
	Tool      string          `json:"tool"`
	Pattern   json.RawMessage `json:"pattern,omitempty" documented:"type=object additionalProperties=true" doc:"The arguments that are allowed; any when absent"`
	CreatedAt time.Time       `json:"createdAt"`
}

func (c controller) permissions(ctx context.Context, who actor.Actor, in *httpapi.PageQuery) (httpapi.Page[permissionBody], error) {
	page, err := c.service.Permissions(ctx, who, *in)
	return httpapi.MapPage(page, func(p Permission) permissionBody { return permissionBody(p) }), err
}

type permissionInput struct {
	ID string `path:"permissionId" maxLength:"64" doc:"The permission"`
}

func (c controller) withdraw(ctx context.Context, who actor.Actor, in *permissionInput) (*httpapi.None, error) {
	return nil, c.service.Withdraw(ctx, who, in.ID)
}

package billing

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing/report"
)

type controller struct {
	service *Service
	reports *report.Service
}

func (c controller) register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "credit-balance", Method: http.MethodGet, Path: "/v1/credit/balance", Tag: "credits", Summary: "What the caller has",
	}, c.balance)
	httpapi.Register(api, httpapi.Operation{
		ID: "credit-usage", Method: http.MethodGet, Path: "/v1/credit/usage", Tag: "credits", Summary: "What the caller was charged, newest first",
	}, c.usage)
	httpapi.Register(api, httpapi.Operation{
		ID: "credit-result", Method: http.MethodGet, Path: "/v1/credit/result", Tag: "credits", Summary: "What a run of the caller's cost, by tool and model",
	}, c.result)
	httpapi.Register(api, httpapi.Operation{
		ID: "credit-canvas", Method: http.MethodGet, Path: "/v1/credit/canvas", Tag: "credits", Summary: "What the caller's runs of a canvas cost, by tool and model",
	}, c.canvas)
	httpapi.Register(api, httpapi.Operation{
		ID: "credit-commission", Method: http.MethodGet, Path: "/v1/credit/commission", Tag: "credits", Summary: "What the caller earned by a canvas that others use: nothing, since canvases are not sold here",
	}, c.commission)
	httpapi.Register(api, httpapi.Operation{
		ID: "credit-execution", Method: http.MethodGet, Path: "/v1/credit/execution", Tag: "credits", Errors: []errs.Code{errs.NotFound},
		Summary: "What an execution of a workflow cost: always 404, since this server runs no workflows",
	}, c.execution)
	httpapi.Register(api, httpapi.Operation{
		ID: "credit-recharge", Method: http.MethodGet, Path: "/v1/credit/recharge", Tag: "credits", Summary: "What the caller was given, newest first",
	}, c.recharges)
	httpapi.Register(api, httpapi.Operation{
		ID: "credit-report", Method: http.MethodGet, Path: "/v1/credit/report", Tag: "credits", Summary: "What the caller was charged, by tool and model, or by something else",
		Description: "With by=day there is a line for each day of the period on which something was charged. Days are those of the zone in tz, UTC when left out.",
	}, c.report)
	c.registerAdmin(api)
}

type reportInput struct {
	From  time.Time `query:"from" doc:"From this moment on; all when left out"`
	Until time.Time `query:"until" doc:"Before this moment"`
	By    string    `query:"by" enum:"day,tool,model,toolset" doc:"What a line is; each tool of each kind of call and each model when left out"`
	Zone  string    `query:"tz" maxLength:"64" doc:"Whose days are meant, such as Europe/Berlin; only with by=day"`
}

// Resolve refuses an empty moment, which would count as one that was left out.
func (in *reportInput) Resolve(c huma.Context) []error {
	u := c.URL()
	for _, name := range []string{"from", "until"} {
		if q := u.Query(); q.Has(name) && q.Get(name) == "" {
			return []error{&huma.ErrorDetail{Location: "query." + name, Message: "expected a moment such as 2026-01-01T00:00:00Z"}}
		}
	}
	return nil
}

func (c controller) report(ctx context.Context, who actor.Actor, in *reportInput) (report.Statement, error) {
	if in.By == "" && in.Zone == "" {
		return c.reports.Report(ctx, who, report.Period{From: in.From, Until: in.Until})
	}
	return c.reports.ReportBy(ctx, who, report.Period{From: in.From, Until: in.Until}, report.Grouping{By: in.By, Zone: in.Zone})
}

// lotBody is a recharge on the wire. Times are milliseconds since 1970.
type lotBody struct {
	RechargeID  string       `json:"rechargeId"`
	Source      string       `json:"source" doc:"gift, subscription, purchase, refund, …"`
	Description string       `json:"description,omitempty"`
	Amount      money.Amount `json:"amount" doc:"Credits given"`
	Balance     money.Amount `json:"balance" doc:"What is left of them"`
	ExpiresAt   int64        `json:"expiresAt"`
	CreatedAt   int64        `json:"createdAt"`
}

func (c controller) recharges(ctx context.Context, who actor.Actor, in *httpapi.PageQuery) (httpapi.Page[lotBody], error) {
	page, err := c.service.Recharges(ctx, who, *in)
	return httpapi.MapPage(page, func(l Lot) lotBody {
		return lotBody{
			RechargeID: l.ID, Source: l.Source, Description: l.Text, Amount: l.Amount, Balance: l.Left,
			ExpiresAt: l.ExpiresAt.UnixMilli(), CreatedAt: l.CreatedAt.UnixMilli(),
		}
	}), err
}

func (c controller) balance(ctx context.Context, who actor.Actor, _ *struct{}) (Balance, error) {
	return c.service.Balance(ctx, who)
}

func (c controller) usage(ctx context.Context, who actor.Actor, in *httpapi.PageQuery) (httpapi.Page[usageBody], error) {
	page, err := c.service.Usages(ctx, who, *in)
	return httpapi.MapPage(page, toBody), err
}

type resultInput struct {
	ResultID string `query:"resultId" required:"true" minLength:"1" maxLength:"64"`
	Version  int    `query:"version" minimum:"-1" default:"-1" doc:"Version; all of them when left out"`
}

func (c controller) result(ctx context.Context, who actor.Actor, in *resultInput) (report.Statement, error) {
	if in.Version < 0 {
		return c.reports.RunReport(ctx, who, in.ResultID, nil)
	}
	return c.reports.RunReport(ctx, who, in.ResultID, &in.Version)
}

type creditCanvasInput struct {
	CanvasID string `query:"canvasId" required:"true" minLength:"1" maxLength:"64"`
}

func (c controller) canvas(ctx context.Context, who actor.Actor, in *creditCanvasInput) (report.Statement, error) {
	return c.reports.CanvasReport(ctx, who, in.CanvasID)
}

type totalBody struct {
	Total money.Amount `json:"total"`
}

func (c controller) commission(context.Context, actor.Actor, *creditCanvasInput) (totalBody, error) {
	return totalBody{}, nil
}

type executionInput struct {
	ExecutionID string `query:"executionId" required:"true" minLength:"1" maxLength:"64"`
}

func (c controller) execution(context.Context, actor.Actor, *executionInput) (totalBody, error) {
	return totalBody{}, errs.New(errs.NotFound, "There is no such execution: this server runs no workflows.").
		Do("GET /v1/credit/result says what a run cost, and GET /v1/credit/canvas what all runs of a canvas did.")
}

// usageBody is a usage on the wire. createdAt is milliseconds since 1970.
type usageBody struct {
	UsageID        string          `json:"usageId"`
	UsageType      string          `json:"usageType"`
	Amount         money.Amount    `json:"amount" doc:"Credits charged"`
	DueAmount      money.Amount    `json:"dueAmount" doc:"Credits by the list"`
	ActionResultID string          `json:"actionResultId,omitempty"`
	Version        *int            `json:"version,omitempty"`
	ToolCallID     string          `json:"toolCallId,omitempty"`
	ToolCallMeta   json.RawMessage `json:"toolCallMeta,omitempty"`
	ModelName      string          `json:"modelName,omitempty"`
	Description    string          `json:"description,omitempty"`
	CreatedAt      int64           `json:"createdAt"`
}

func toBody(u Usage) usageBody {
	b := usageBody{
		UsageID: u.UsageID, UsageType: u.Type, Amount: u.Amount, DueAmount: u.Due, ActionResultID: u.ResultID, Version: u.Version,
		ToolCallID: u.CallID, ModelName: u.Model, Description: u.Text, CreatedAt: u.CreatedAt.UnixMilli(),
	}
	if u.Meta != "" {
		b.ToolCallMeta = json.RawMessage(u.Meta)
	}
	return b
}

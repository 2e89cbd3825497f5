package billing

import (
	"context"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
)

func (c controller) registerAdmin(api *httpapi.API) {
	op := func(id, method, path, summary string, codes ...errs.Code) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: method, Path: "/v1/admin/" + path, Tag: "admin", Access: httpapi.Admin, Summary: summary, Errors: codes}
	}
	httpapi.Register(api, op("admin-list-limits", http.MethodGet, "limits", "The users who have a spending limit of their own"), c.limitsOfAll)
	httpapi.Register(api, op("admin-usual-limits", http.MethodGet, "limits/usual", "What users may spend who have no limits of their own"), c.usualLimits)
	httpapi.Register(api, op("admin-limits", http.MethodGet, "limits/{uid}", "What a user may spend: limits of their own, else the usual ones"), c.limitsOf)
	httpapi.Register(api, op("admin-set-limits", http.MethodPut, "limits/{uid}", "Set what a user may spend", errs.NotFound), c.setLimits)
	httpapi.Register(api, op("admin-list-plans", http.MethodGet, "plans", "The plans of subscriptions"), c.plans)
}

// spendingBody are spending limits in credits.
type spendingBody struct {
	Run       *money.Amount `json:"run,omitempty" doc:"Most that one version of a run may spend; absent for no limit"`
	Day       *money.Amount `json:"day,omitempty" doc:"Most that may be spent from midnight to midnight UTC; absent for no limit"`
	Overdraft *money.Amount `json:"overdraft,omitempty" doc:"How far the balance may go below nothing; absent for no limit"`
}

type userLimitsBody struct {
	UID       string        `json:"uid"`
	Run       *money.Amount `json:"run,omitempty" doc:"Absent where the usual limit applies"`
	Day       *money.Amount `json:"day,omitempty" doc:"Absent where the usual limit applies"`
	Overdraft *money.Amount `json:"overdraft,omitempty" doc:"Absent where the usual limit applies"`
	UpdatedAt time.Time     `json:"updatedAt"`
}

func (c controller) limitsOfAll(ctx context.Context, _ actor.Actor, in *httpapi.PageQuery) (httpapi.Page[userLimitsBody], error) {
	page, err := c.service.LimitsOfAll(ctx, *in)
	return httpapi.MapPage(page, func(l UserLimits) userLimitsBody {
		return userLimitsBody{l.UID, l.Run, l.Day, l.Overdraft, l.UpdatedAt}
	}), err
}

func (c controller) usualLimits(context.Context, actor.Actor, *struct{}) (spendingBody, error) {
	return spendingBody(c.service.Usual()), nil
}

type limitsInput struct {
	UID string `path:"uid" maxLength:"64" doc:"The user"`
}

func (c controller) limitsOf(ctx context.Context, _ actor.Actor, in *limitsInput) (spendingBody, error) {
	l, err := c.service.LimitsOf(ctx, in.UID)
	return spendingBody(l), err
}

type setLimitsInput struct {
	UID  string `path:"uid" maxLength:"64" doc:"The user"`
	Body struct {
		Run       *money.Amount `json:"run,omitempty" minimum:"0" doc:"Left out to follow the server's settings"`
		Day       *money.Amount `json:"day,omitempty" minimum:"0" doc:"Left out to follow the server's settings"`
		Overdraft *money.Amount `json:"overdraft,omitempty" minimum:"0" doc:"Left out to follow the server's settings"`
	}
}

func (c controller) setLimits(ctx context.Context, who actor.Actor, in *setLimitsInput) (spendingBody, error) {
	if err := c.service.SetLimitsBy(ctx, who, in.UID, Limits(in.Body)); err != nil {
		return spendingBody{}, err
	}
	l, err := c.service.LimitsOf(ctx, in.UID)
	return spendingBody(l), err
}

type planBody struct {
	Key       string       `json:"lookupKey"`
	Type      string       `json:"planType"`
	Interval  string       `json:"interval,omitempty" doc:"monthly or yearly"`
	Monthly   money.Amount `json:"monthly" doc:"Credits of a month"`
	DailyGift money.Amount `json:"dailyGift" doc:"Credits of a day"`
}

func (c controller) plans(ctx context.Context, _ actor.Actor, _ *struct{}) ([]planBody, error) {
	plans, err := c.service.Plans(ctx)
	bodies := make([]planBody, len(plans))
	for i, p := range plans {
		bodies[i] = planBody{Key: p.LookupKey, Type: p.Type, Interval: p.Interval, Monthly: p.Monthly, DailyGift: p.DailyGift}
	}
	return bodies, err
}

package app

import (
	"context"
	"net/http"
	"time"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing"
)

// limited says what a user may use and uses: several modules bound that.
type limited struct{ app *App }

// Register adds the route.
func (l limited) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "limits", Method: http.MethodGet, Path: "/v1/limits", Tag: "credits", Summary: "What the caller may spend and use, and how much of it is spent and used",
		Description: "Calls and programs are those of the process that answers.",
	}, l.limits)
}

type standingBody struct {
	Plan      string       `json:"plan" doc:"The lookup key of the caller's plan; free where there is no subscription"`
	Credits   creditLimits `json:"credits"`
	Storage   storageBody  `json:"storage"`
	Calls     shareBody    `json:"calls" doc:"Calls of tools"`
	Programs  shareBody    `json:"programs" doc:"Programs that run"`
	Waiting   shareBody    `json:"programsWaiting" doc:"Programs that wait for their turn"`
	Suspended shareBody    `json:"programsPaused" doc:"Programs that wait for somebody outside"`
}

type creditLimits struct {
	Run       *money.Amount `json:"runLimit,omitempty" doc:"Most that one version of a run may spend; absent for no limit"`
	Day       *money.Amount `json:"dayLimit,omitempty" doc:"Most that may be spent from midnight to midnight UTC; absent for no limit"`
	Overdraft *money.Amount `json:"overdraft,omitempty" doc:"How far the balance may go below nothing; absent for no limit"`
	Spent     money.Amount  `json:"spentToday" doc:"Charged since daySince"`
	Held      money.Amount  `json:"held" doc:"What calls that execute will cost at least, where there is a limit"`
	Since     time.Time     `json:"daySince" doc:"Midnight UTC"`
}

type storageBody struct {
	Used  int64 `json:"usedBytes"`
	Quota int64 `json:"quotaBytes"`
}

type shareBody struct {
	Now  int  `json:"now"`
	Most *int `json:"most,omitempty" doc:"Absent for no bound"`
}

func share(now, most int) shareBody {
	if most <= 0 {
		return shareBody{Now: now}
	}
	return shareBody{now, &most}
}

func (l limited) limits(ctx context.Context, who actor.Actor, _ *struct{}) (standingBody, error) {
	s, err := l.app.Credits.Service.Standing(ctx, who)
	if err != nil {
		return standingBody{}, err
	}
	used, quota, err := l.app.Drive.Service.Usage(ctx, who)
	if err != nil {
		return standingBody{}, err
	}
	held, most := l.app.Engine.Of(who.UID)
	return standingBody{
		Plan: s.Plan, Credits: creditLimits{s.Limits.Run, s.Limits.Day, s.Limits.Overdraft, s.Spent, s.Held, s.Since},
		Storage: storageBody{used, quota}, Calls: share(l.app.Tools.Service.AtOnce(who)),
		Programs: share(held.Running, most.Running), Waiting: share(held.Queued, most.Queued), Suspended: share(held.Paused, most.Paused),
	}, nil
}

// limits are what every user may spend.
func limits(c configs.Billing) billing.Limits {
	limit := func(d *configs.Decimal) *money.Amount {
		if d == nil {
			return nil
		}
		amount := credits(*d)
		return &amount
	}
	return billing.Limits{Run: limit(c.RunLimit), Day: limit(c.DayLimit), Overdraft: limit(c.Overdraft)}
}

// credits is a configured number of credits. Both types count millionths.
func credits(d configs.Decimal) money.Amount {
	const scale = money.Credit / money.Amount(configs.One)
	return money.Amount(d) * scale
}

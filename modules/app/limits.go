package app

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/sandbox"
)

// limited says what a user may use and uses: several modules bound that.
type limited struct{ app *App }

// Register adds the route.
func (l limited) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "limits", Method: http.MethodGet, Path: "/v1/limits", Tag: "credits", Summary: "What the caller may spend and use, and how much of it is spent and used",
		Description: "Calls, runs and programs are those of all processes, each as of the moment when it was asked. Where processes.counted is less than processes.live, " +
			"not every process could be asked, and there may be more.",
	}, l.limits)
}

type standingBody struct {
	Plan      string       `json:"plan" doc:"The lookup key of the caller's plan; free where there is no subscription"`
	Credits   creditLimits `json:"credits"`
	Storage   storageBody  `json:"storage"`
	Calls     shareBody    `json:"calls" doc:"Calls of tools that execute"`
	Runs      shareBody    `json:"runs" doc:"Runs of agents that are worked on"`
	Together  shareBody    `json:"programsTogether" doc:"Programs that run, wait or are paused, which are bounded together"`
	Programs  shareBody    `json:"programs" doc:"Programs that run; each process has a bound of its own, and most is what all may have"`
	Waiting   shareBody    `json:"programsWaiting" doc:"Programs that wait for their turn; most as of programs"`
	Suspended shareBody    `json:"programsPaused" doc:"Programs that wait for somebody outside; most as of programs"`
	Processes countedBody  `json:"processes" doc:"Whose calls, runs and programs are counted"`
}

type countedBody struct {
	Counted int `json:"counted" doc:"Processes that were asked, the one that answers among them"`
	Live    int `json:"live" doc:"Processes that live"`
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
	now, processes, err := l.everywhere(ctx, who)
	if err != nil {
		return standingBody{}, err
	}
	_, calls := l.app.Tools.Service.AtOnce(who)
	_, runs := l.app.Agents.Service.AtOnce(who)
	_, each := l.app.Engine.Of(who.UID)
	together := sum(each)
	all := func(each int) int { return min(each*processes.Live, together) }
	return standingBody{
		Plan: s.Plan, Credits: creditLimits{s.Limits.Run, s.Limits.Day, s.Limits.Overdraft, s.Spent, s.Held, s.Since},
		Storage: storageBody{used, quota}, Calls: share(now.Calls, calls), Runs: share(now.Runs, runs), Together: share(sum(now.Programs), together),
		Programs: share(now.Programs.Running, all(each.Running)), Waiting: share(now.Programs.Queued, all(each.Queued)),
		Suspended: share(now.Programs.Paused, all(each.Paused)), Processes: processes,
	}, nil
}

// underWay is what a user has now.
type underWay struct {
	Calls, Runs int
	Programs    sandbox.Counts
}

func sum(c sandbox.Counts) int { return c.Running + c.Queued + c.Paused }

// underWayOp is the name under which other processes are asked for it.
const underWayOp = "limits.now"

// underWayTime is how long they have.
const underWayTime = 3 * time.Second

// here is what a user has in this process.
func (l limited) here(who actor.Actor) (u underWay) {
	u.Calls, _ = l.app.Tools.Service.AtOnce(who)
	u.Runs, _ = l.app.Agents.Service.AtOnce(who)
	u.Programs, _ = l.app.Engine.Of(who.UID)
	return u
}

// everywhere is what a user has in all processes that can be asked. That some cannot is
// said, and keeps nobody from the rest.
func (l limited) everywhere(ctx context.Context, who actor.Actor) (u underWay, processes countedBody, err error) {
	ctx, cancel := context.WithTimeout(ctx, underWayTime)
	defer cancel()
	live, err := l.app.Nodes.Live(ctx)
	if err != nil {
		return u, processes, err
	}
	u, processes = l.here(who), countedBody{Counted: 1, Live: len(live)}
	if l.app.Peers != nil {
		err = l.app.Peers.Others(ctx, underWayOp, who, nil, func(answer json.RawMessage) {
			var there underWay
			if json.Unmarshal(answer, &there) != nil {
				return // it is not counted
			}
			u.Calls, u.Runs = u.Calls+there.Calls, u.Runs+there.Runs
			u.Programs.Running += there.Programs.Running
			u.Programs.Queued += there.Programs.Queued
			u.Programs.Paused += there.Programs.Paused
			processes.Counted++
		})
		if err != nil {
			l.app.Logger.WarnContext(ctx, "not every process said what a user has under way", "uid", who.UID, "error", err)
		}
	}
	processes.Live = max(processes.Live, processes.Counted) // one came just now
	return u, processes, nil
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

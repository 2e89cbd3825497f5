package run

import (
	"context"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
)

func (c controller) registerAdmin(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "admin-list-runs", Method: http.MethodGet, Path: "/v1/admin/runs", Tag: "admin", Access: httpapi.Admin,
		Summary:     "The runs of all users, newest first, without what was said or done in them",
		Description: "Titles, questions, code, arguments, results and errors are their users' own and are not shown.",
	}, c.all)
}

type allInput struct {
	httpapi.PageQuery

	UID    string    `query:"uid" maxLength:"64" doc:"Only this user's"`
	Status Status    `query:"status" enum:"waiting,running,finish,error,aborted" doc:"Only those in this state"`
	From   time.Time `query:"from" doc:"Begun at this moment or later"`
	Until  time.Time `query:"until" doc:"Begun before this moment"`
}

// metaBody is what administrators see of a run.
type metaBody struct {
	ResultID   string    `json:"resultId"`
	Version    int       `json:"version"`
	UID        string    `json:"uid" doc:"Whose it is"`
	Type       string    `json:"type"`
	Status     Status    `json:"status" enum:"waiting,running,finish,error,aborted"`
	ErrorType  string    `json:"errorType,omitempty" doc:"systemError or userAbort"`
	ModelName  string    `json:"modelName,omitempty"`
	PTCEnabled bool      `json:"ptcEnabled"`
	LastEvent  int64     `json:"lastEventId"`
	CreatedAt  time.Time `json:"createdAt"`
	UpdatedAt  time.Time `json:"updatedAt"`
}

func (c controller) all(ctx context.Context, _ actor.Actor, in *allInput) (httpapi.Page[metaBody], error) {
	page, err := c.service.All(ctx, AllFilter{UID: in.UID, Status: in.Status, From: in.From, Until: in.Until}, in.PageQuery)
	return httpapi.MapPage(page, func(r Run) metaBody {
		return metaBody{
			ResultID: r.ResultID, Version: r.Version, UID: r.UID, Type: r.Type, Status: r.Status, ErrorType: r.ErrorType, ModelName: r.Model,
			PTCEnabled: r.PTCEnabled, LastEvent: r.Seq, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		}
	}), err
}

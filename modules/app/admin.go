package app

import (
	"context"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/toolset/file"
)

// admin is what administrators see of the process as a whole.
type admin struct{ app *App }

// Register adds the routes.
func (a admin) Register(api *httpapi.API) {
	op := func(id, path, summary string) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: http.MethodGet, Path: "/v1/admin/" + path, Tag: "admin", Access: httpapi.Admin, Summary: summary}
	}
	httpapi.Register(api, op("admin-audit", "audit", "What all users and administrators changed, and what administrators asked, newest first"), a.audit)
	httpapi.Register(api, op("admin-toolsets", "toolsets", "The toolsets of this server, and what is wrong with their files"), a.toolsets)
	httpapi.Register(api, op("admin-sandbox", "sandbox", "What the sandbox does, and with probe=true which layers keep programs apart"), a.sandbox)
	httpapi.Register(api, op("admin-status", "status", "How the parts of this process do"), a.status)
}

// asked keeps in the audit log what an administrator asks. What cannot be kept is
// not answered.
func (a *App) asked(ctx context.Context, who actor.Actor, q httpapi.Question) error {
	return a.DB.InTx(ctx, func(tx database.Tx) error {
		return audit.Write(tx, audit.Change{By: who, Action: audit.Ask + q.Operation, Subject: q.Path, Detail: q.Parameters}, a.DB.Now())
	})
}

type auditInput struct {
	httpapi.PageQuery

	UID     string    `query:"uid" maxLength:"64" doc:"Only of this user; operator for changes from the command line"`
	Action  string    `query:"action" maxLength:"100" doc:"Only this, such as key.create"`
	Subject string    `query:"subject" maxLength:"1000" doc:"Only of this thing"`
	From    time.Time `query:"from" doc:"At this moment or later"`
	Until   time.Time `query:"until" doc:"Before this moment"`
	Asked   string    `query:"asked" enum:"true,false" doc:"Also what administrators asked and changed nothing by; an action that begins with ask. does that, too"`
}

type changeBody struct {
	UID       string            `json:"uid" doc:"Whose thing it is, or who asked"`
	KeyID     string            `json:"keyId,omitempty" doc:"The API key that asked for it"`
	Action    string            `json:"action"`
	Subject   string            `json:"subject"`
	Detail    map[string]string `json:"detail"`
	CreatedAt time.Time         `json:"createdAt"`
}

func (a admin) audit(ctx context.Context, _ actor.Actor, in *auditInput) (httpapi.Page[changeBody], error) {
	w, err := in.Window()
	if err != nil {
		return httpapi.Page[changeBody]{}, err
	}
	events, total, err := audit.All(a.app.DB.Read(ctx), audit.Filter{UID: in.UID, Action: in.Action, Subject: in.Subject, From: in.From, Until: in.Until, Asked: in.Asked == "true"}, w)
	if err != nil {
		return httpapi.Page[changeBody]{}, err
	}
	return httpapi.MapPage(httpapi.PageOf(w, events, total, func(e audit.Event) int64 { return e.PK }), func(e audit.Event) changeBody {
		return changeBody{e.UID, e.KeyID, e.Action, e.Subject, e.Detail, e.CreatedAt}
	}), nil
}

type officeBody struct {
	Toolsets []offeredBody `json:"toolsets" nullable:"false"`
	Problems []problemBody `json:"problems" nullable:"false" doc:"What is wrong with toolset files since the start; what the files said before is in force"`
}

type offeredBody struct {
	Key     string `json:"key"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Domain  string `json:"domain,omitempty"`
	Builtin bool   `json:"builtin"`
	Tools   int    `json:"tools" doc:"0 where a provider lists them"`
}

type problemBody struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Problem string `json:"problem" doc:"It may quote what the file says"`
}

func (a admin) toolsets(ctx context.Context, _ actor.Actor, _ *struct{}) (officeBody, error) {
	items, err := a.app.Installs.Service.Inventory(ctx)
	body := officeBody{Toolsets: make([]offeredBody, len(items)), Problems: []problemBody{}}
	for i, item := range items {
		body.Toolsets[i] = offeredBody{item.Key, item.Name, item.Type, item.Domain, item.Builtin, len(item.Methods())}
	}
	for _, p := range a.app.problems() {
		body.Problems = append(body.Problems, problemBody{p.File, p.Line, p.Message})
	}
	return body, err
}

// problems are those of the toolset files that were loaded.
func (a *App) problems() []file.Problem {
	if p := a.invalid.Load(); p != nil {
		return *p
	}
	return nil
}

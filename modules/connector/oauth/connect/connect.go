// Package connect has the routes and pages on which people authorize Portico.
package connect

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/connector/oauth"
)

//go:embed page.html
var pageText string

// Authenticator knows users by their credentials.
type Authenticator interface {
	Authenticate(ctx context.Context, c httpapi.Credentials) (actor.Actor, error)
}

// Connections is what users do to authorize this server.
type Connections struct {
	service *oauth.Service
	kind    oauth.Kind
	users   Authenticator
	secure  bool
	page    *template.Template
}

// New wires the API. endpoint is where browsers reach this server.
func New(s *oauth.Service, users Authenticator, endpoint string) *Connections {
	return &Connections{
		service: s, kind: s.Kind(), users: users, secure: strings.HasPrefix(endpoint, "https://"), page: template.Must(template.New("").Parse(pageText)),
	}
}

// Register adds the operations to the API.
func (c *Connections) Register(api *httpapi.API) {
	short := c.kind.Action
	slug := strings.ReplaceAll(strings.ToLower(c.kind.Noun), " ", "-")
	op := func(id, method, path, summary string, codes ...errs.Code) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: method, Path: path, Summary: summary, Tag: c.kind.Tag, Errors: codes}
	}
	one := c.kind.Routes + "/{name}"
	connect := op("connect-"+slug, http.MethodPost, one+"/connect", "Begin to authorize this server for "+c.kind.One, errs.ToolsetMissing, errs.Conflict, errs.Unavailable)
	connect.Description = "The answer sets a cookie, by which the browser is known when it comes back. A flow that ends in another browser shows a code there, which is sent to confirm."
	connect.Raw = httpapi.Description{Answers: []any{httpapi.Envelope[begunBody]{}}}
	api.Raw(connect, c.connect)
	httpapi.Register(api, op("confirm-"+slug, http.MethodPost, one+"/confirm", "Complete an authorization that ended in another browser", errs.ToolsetMissing, errs.NotFound), c.confirm)
	httpapi.Register(api, op("disconnect-"+slug, http.MethodPost, one+"/disconnect", "End the caller's authorization for "+c.kind.One, errs.ToolsetMissing, errs.NotFound, errs.Conflict), c.disconnect)

	public := func(o httpapi.Operation, d httpapi.Description) httpapi.Operation {
		o.Access, o.Raw = httpapi.Public, d
		return o
	}
	callback := httpapi.Description{Media: map[string]string{"text/html": "<!doctype html>…"}, Statuses: pages(), Input: callbackInput{}}
	back := op(short+"-oauth-callback", http.MethodGet, c.kind.Path+"/oauth/callback", "Where authorization servers send browsers back to")
	if c.kind.Fixed {
		back.Path, callback.Input = back.Path+"/{name}", namedCallbackInput{}
	} else {
		document := public(op(short+"-oauth-client", http.MethodGet, c.kind.Path+"/oauth/client.json", "What this server is as an OAuth client"), httpapi.Description{})
		httpapi.RegisterPlain(api, document, func(context.Context, actor.Actor, *struct{}) (oauth.Document, error) {
			return c.service.Document(), nil
		})
	}
	api.Raw(public(back, callback), c.callback)
	redirecting := httpapi.Description{Media: callback.Media, Statuses: pages()}
	redirecting.Statuses[http.StatusSeeOther] = "To the authorization server"
	page := c.kind.Path + "/connect/{name}"
	api.Raw(public(op("show-"+short+"-connect", http.MethodGet, page, "A page on which a person begins to authorize this server"), redirecting), c.show)
	api.Raw(public(op("begin-"+short+"-connect", http.MethodPost, page, "What that page sends"), redirecting), c.begin)
}

// pages are the statuses of pages that say what went wrong.
func pages() map[int]string {
	return map[int]string{
		http.StatusUnauthorized: "A page that asks for another key", http.StatusForbidden: "A page that says why not",
		http.StatusNotFound: "A page that says that there is no such thing to authorize, or authorization", http.StatusConflict: "A page that says why this server cannot be authorized",
		http.StatusServiceUnavailable: "A page that says that the authorization server does not answer",
	}
}

type begunBody struct {
	URL       string    `json:"url" example:"https://auth.example.com/authorize?response_type=code" doc:"Where the user's browser goes"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// cookie is by what a browser is known that began a flow.
func (c *Connections) cookie() string { return "portico_" + c.kind.Action + "_connect" }

func (c *Connections) remember(w http.ResponseWriter, b oauth.Begun) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever browsers reach this server by https
		Name: c.cookie(), Value: b.Browser, Path: c.kind.Path + "/oauth", Expires: b.Expires, HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteLaxMode,
	})
}

func (c *Connections) connect(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	b, err := c.service.Connect(r.Context(), who, r.PathValue("name"))
	if err != nil {
		return err
	}
	c.remember(w, b)
	return httpapi.Write(w, begunBody{URL: b.URL, ExpiresAt: b.Expires})
}

type confirmInput struct {
	Name string `path:"name" maxLength:"64" doc:"As tools have it"`
	Body struct {
		Code string `json:"code" minLength:"1" maxLength:"20" pattern:"^[A-Za-z0-9 -]+$" example:"BCDF-GHJK" doc:"As the page showed it"`
	}
}

func (c *Connections) confirm(ctx context.Context, who actor.Actor, in *confirmInput) (*httpapi.None, error) {
	return nil, c.service.Confirm(ctx, who, in.Name, in.Body.Code)
}

type nameInput struct {
	Name string `path:"name" maxLength:"64" doc:"As tools have it"`
}

func (c *Connections) disconnect(ctx context.Context, who actor.Actor, in *nameInput) (*httpapi.None, error) {
	return nil, c.service.Disconnect(ctx, who, in.Name)
}

type callbackInput struct {
	State       string `query:"state" required:"true" minLength:"1" example:"k3Jd" doc:"That of the flow"`
	Code        string `query:"code" example:"SplxlOBe" doc:"Of the authorization server"`
	Issuer      string `query:"iss" example:"https://auth.example.com" doc:"Who answers"`
	Error       string `query:"error" example:"access_denied" doc:"Why there is no code"`
	Description string `query:"error_description" example:"The user declined" doc:"The same in words"`
}

type namedCallbackInput struct {
	Name string `path:"name" maxLength:"64" doc:"Whose authorization server answers"`

	callbackInput
}

// shown is what a page says.
type shown struct {
	Title, Text, Code string
	// Confirm is the route that takes the code.
	Confirm string
	Ask     bool
}

// write answers with a page that loads nothing and is kept by nobody. It may hold
// a code.
func (c *Connections) write(w http.ResponseWriter, status int, p shown) error {
	var b bytes.Buffer
	if err := c.page.Execute(&b, p); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // whoever has gone is not told
	return nil
}

// refuse says on a page what went wrong; other faults are the API's to answer.
func (c *Connections) refuse(w http.ResponseWriter, err error, ask bool) error {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return err
	}
	status := e.Code.Status()
	if status == http.StatusBadRequest { // answers with that status are the API's own
		status = http.StatusConflict
	}
	return c.write(w, status, shown{Title: "Not connected", Text: e.Message + " " + e.Detail, Ask: ask})
}

func (c *Connections) callback(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	q := r.URL.Query()
	browser := ""
	if one, err := r.Cookie(c.cookie()); err == nil {
		browser = one.Value
	}
	got, err := c.service.Callback(r.Context(), oauth.Answer{
		Name: r.PathValue("name"), State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error"), Description: q.Get("error_description"),
	}, browser)
	switch {
	case err != nil:
		return c.refuse(w, err, false)
	case got.Code != "":
		return c.write(w, http.StatusOK, shown{Title: "One more step", Text: fmt.Sprintf("The %s %s is connected when you confirm it with this code.", c.kind.Noun, got.Name), Confirm: c.kind.Routes + "/" + got.Name + "/confirm", Code: got.Code[:4] + "-" + got.Code[4:]})
	}
	return c.write(w, http.StatusOK, shown{Title: "Connected", Text: fmt.Sprintf("Portico may use the %s %s for you. You can close this page.", c.kind.Noun, got.Name)})
}

// session is where a browser keeps its session token.
const session = "_rf_access"

// show goes on at once for a browser with a session, and asks others for a key.
func (c *Connections) show(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	if token, err := r.Cookie(session); err == nil {
		if who, err := c.users.Authenticate(r.Context(), httpapi.Credentials{Token: token.Value}); err == nil {
			return c.leave(w, r, who)
		}
	}
	return c.write(w, http.StatusOK, shown{Title: "Connect " + c.kind.One, Text: fmt.Sprintf("A program of yours needs your authorization for the %s %s. A page of the service itself comes next.", c.kind.Noun, r.PathValue("name")), Ask: true})
}

// maxForm bounds what the page sends, in bytes.
const maxForm = 4 << 10

// begin takes the key from the page. Pages of others cannot send theirs: whoever
// could, would have the user authorize for somebody else.
func (c *Connections) begin(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return c.refuse(w, errs.New(errs.Forbidden, "The request comes from a page of another site.").With(err), false)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return c.refuse(w, errs.New(errs.Invalid, "The form cannot be read.").Do("Send it again.").With(err), true)
	}
	who, err := c.users.Authenticate(r.Context(), httpapi.Credentials{APIKey: strings.TrimSpace(r.PostForm.Get("key"))})
	if err != nil {
		return c.refuse(w, err, true)
	}
	return c.leave(w, r, who)
}

// leave begins a flow and sends the browser to the authorization server.
func (c *Connections) leave(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	if who.Scope != actor.Full {
		return c.refuse(w, errs.New(errs.Forbidden, "The credential is for other things."), true)
	}
	b, err := c.service.Connect(r.Context(), who, r.PathValue("name"))
	if err != nil {
		return c.refuse(w, err, false)
	}
	c.remember(w, b)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, b.URL, http.StatusSeeOther)
	return nil
}

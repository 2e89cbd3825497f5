package api

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
	"github.com/portico-run/portico/modules/connector/mcp/oauth"
)

//go:embed connect.html
var connectPage string

// Authenticator knows users by their credentials.
type Authenticator interface {
	Authenticate(ctx context.Context, c httpapi.Credentials) (actor.Actor, error)
}

// Connections is what users do to authorize this server at MCP servers.
type Connections struct {
	service *oauth.Service
	users   Authenticator
	secure  bool
	page    *template.Template
}

// NewConnections wires the API. endpoint is where browsers reach this server.
func NewConnections(s *oauth.Service, users Authenticator, endpoint string) *Connections {
	return &Connections{
		service: s, users: users, secure: strings.HasPrefix(endpoint, "https://"), page: template.Must(template.New("").Parse(connectPage)),
	}
}

// Register adds the operations to the API.
func (c *Connections) Register(api *httpapi.API) {
	op := func(id, method, path, summary string, codes ...errs.Code) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: method, Path: path, Summary: summary, Tag: "mcp", Errors: codes}
	}
	one := path + "/{name}"
	connect := op("connect-mcp-server", http.MethodPost, one+"/connect", "Begin to authorize this server at an MCP server", errs.ToolsetMissing, errs.Conflict, errs.Unavailable)
	connect.Description = "The answer sets a cookie, by which the browser is known when it comes back. A flow that ends in another browser shows a code there, which is sent to confirm."
	connect.Raw = httpapi.Description{Answers: []any{httpapi.Envelope[begunBody]{}}}
	api.Raw(connect, c.connect)
	httpapi.Register(api, op("confirm-mcp-server", http.MethodPost, one+"/confirm", "Complete an authorization that ended in another browser", errs.ToolsetMissing, errs.NotFound), c.confirm)
	httpapi.Register(api, op("disconnect-mcp-server", http.MethodPost, one+"/disconnect", "End the caller's authorization for an MCP server", errs.ToolsetMissing, errs.NotFound, errs.Conflict), c.disconnect)

	page := httpapi.Description{Media: map[string]string{"text/html": "<!doctype html>…"}, Statuses: pages()}
	public := func(o httpapi.Operation, d httpapi.Description) httpapi.Operation {
		o.Access, o.Raw = httpapi.Public, d
		return o
	}
	callback := page
	callback.Input = callbackInput{}
	api.Raw(public(op("mcp-oauth-callback", http.MethodGet, "/v1/mcp/oauth/callback", "Where authorization servers send browsers back to"), callback), c.callback)
	document := public(op("mcp-oauth-client", http.MethodGet, "/v1/mcp/oauth/client.json", "What this server is as an OAuth client"), httpapi.Description{})
	httpapi.RegisterPlain(api, document, func(context.Context, actor.Actor, *struct{}) (oauth.Document, error) {
		return c.service.Document(), nil
	})
	redirecting := page
	redirecting.Statuses = pages()
	redirecting.Statuses[http.StatusSeeOther] = "To the authorization server"
	api.Raw(public(op("show-mcp-connect", http.MethodGet, "/v1/mcp/connect/{name}", "A page on which a person begins to authorize this server"), redirecting), c.show)
	api.Raw(public(op("begin-mcp-connect", http.MethodPost, "/v1/mcp/connect/{name}", "What that page sends"), redirecting), c.begin)
}

// pages are the statuses of pages that say what went wrong.
func pages() map[int]string {
	return map[int]string{
		http.StatusUnauthorized: "A page that asks for another key", http.StatusForbidden: "A page that says why not",
		http.StatusNotFound: "A page that says that there is no such server or authorization", http.StatusConflict: "A page that says why this server cannot be authorized",
		http.StatusServiceUnavailable: "A page that says that the authorization server does not answer",
	}
}

type begunBody struct {
	URL       string    `json:"url" example:"https://auth.example.com/authorize?response_type=code" doc:"Where the user's browser goes"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// cookie is by what a browser is known that began a flow.
const cookie = "portico_mcp_connect"

func (c *Connections) remember(w http.ResponseWriter, b oauth.Begun) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever browsers reach this server by https
		Name: cookie, Value: b.Browser, Path: "/v1/mcp/oauth", Expires: b.Expires, HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteLaxMode,
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
	Name string `path:"name" maxLength:"64" doc:"Name of the server"`
	Body struct {
		Code string `json:"code" minLength:"1" maxLength:"20" pattern:"^[A-Za-z0-9 -]+$" example:"BCDF-GHJK" doc:"As the page showed it"`
	}
}

func (c *Connections) confirm(ctx context.Context, who actor.Actor, in *confirmInput) (*httpapi.None, error) {
	return nil, c.service.Confirm(ctx, who, in.Name, in.Body.Code)
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

// shown is what a page says.
type shown struct {
	Title, Text, Server, Code string
	Ask                       bool
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
	if one, err := r.Cookie(cookie); err == nil {
		browser = one.Value
	}
	got, err := c.service.Callback(r.Context(), oauth.Answer{
		State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error"), Description: q.Get("error_description"),
	}, browser)
	switch {
	case err != nil:
		return c.refuse(w, err, false)
	case got.Code != "":
		return c.write(w, http.StatusOK, shown{Title: "One more step", Text: fmt.Sprintf("MCP server %s is connected when you confirm it with this code.", got.Server), Server: got.Server, Code: got.Code[:4] + "-" + got.Code[4:]})
	}
	return c.write(w, http.StatusOK, shown{Title: "Connected", Text: fmt.Sprintf("Portico may use MCP server %s for you. You can close this page.", got.Server)})
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
	return c.write(w, http.StatusOK, shown{Title: "Connect an MCP server", Text: fmt.Sprintf("A program of yours needs your authorization for the MCP server %s. The page of that server comes next.", r.PathValue("name")), Ask: true})
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

package signin

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/login"
)

type controller struct {
	service *Service
	runs    Runs
}

type proofBody struct {
	APIKey   string `json:"apiKey,omitempty" maxLength:"256" doc:"An API key"`
	Code     string `json:"code,omitempty" maxLength:"256" doc:"The code of a link" example:"K7QF2XV5N3ZJ4T6WYB2DHMPRSA"`
	Email    string `json:"email,omitempty" maxLength:"320" doc:"The e-mail address or the name of the user"`
	Password string `json:"password,omitempty" maxLength:"1024" example:"correct horse"`
}

type meBody struct {
	UID        string   `json:"uid"`
	Name       string   `json:"name" example:"anna"`
	Email      string   `json:"email"`
	Role       string   `json:"role" enum:"user,admin"`
	Credential string   `json:"credential" enum:"key,session,token"`
	KeyID      string   `json:"keyId,omitempty" doc:"The API key in use, or the one that the session was begun with"`
	SessionID  string   `json:"sessionId,omitempty" doc:"The session in use"`
	Scopes     []string `json:"scopes" nullable:"false" doc:"What the key may do; empty for everything"`
}

func toMe(u account.User, who actor.Actor) meBody {
	me := meBody{UID: u.UID, Name: u.Name, Email: u.Email, Role: u.Role(), Credential: "token", KeyID: who.KeyID, SessionID: who.SessionID, Scopes: who.Rights.Names()}
	switch {
	case who.SessionID != "":
		me.Credential = "session"
	case who.KeyID != "":
		me.Credential = "key"
	}
	return me
}

func (c controller) signIn(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	var body proofBody
	if err := httpapi.ReadJSON(r, &body); err != nil {
		return err
	}
	in, err := c.service.SignIn(r.Context(), Proof(body), clientOf(r))
	if err != nil {
		return err
	}
	return c.welcome(w, r, in)
}

// welcome gives a browser its session.
func (c controller) welcome(w http.ResponseWriter, r *http.Request, in SignedIn) error {
	http.SetCookie(w, c.cookie(r, in.Token, in.Session.ExpiresAt))
	w.Header().Set("Cache-Control", "no-store")
	return httpapi.Write(w, toMe(in.User, actor.Actor{UID: in.User.UID, KeyID: in.Session.KeyID, SessionID: in.Session.ID, Rights: in.Session.Rights}))
}

func (c controller) signOut(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	if cookie, err := r.Cookie(httpapi.AccessCookie); err == nil {
		if err := c.service.SignOut(r.Context(), cookie.Value); err != nil {
			return err
		}
	}
	http.SetCookie(w, c.cookie(r, "", time.Time{}))
	return httpapi.Write[*httpapi.None](w, nil)
}

// cookie holds a session; without a token it takes the one back that there is.
func (c controller) cookie(r *http.Request, token string, expires time.Time) *http.Cookie {
	cookie := &http.Cookie{ //nolint:gosec // the flag Secure follows from where the browser is
		Name: httpapi.AccessCookie, Value: token, Path: "/", Expires: expires, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: strings.HasPrefix(c.service.settings.Endpoint, "https:") || !loopback(r.Host),
	}
	if token == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// loopback reports whether the host of an address is this machine for whoever uses
// it: there, some browsers drop cookies that need TLS.
func loopback(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = hostPort
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// clientOf is what the server sees of a browser.
func clientOf(r *http.Request) Client {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return Client{IP: host, UserAgent: r.UserAgent()}
}

func (c controller) me(ctx context.Context, who actor.Actor, _ *struct{}) (meBody, error) {
	u, err := c.service.accounts.User(ctx, who)
	return toMe(u, who), err
}

type sessionBody struct {
	SessionID  string    `json:"sessionId"`
	Current    bool      `json:"current" doc:"Whether it is the one of this request"`
	Method     string    `json:"method" enum:"key,link,password,oidc,sign-up" doc:"How the user signed in"`
	KeyID      string    `json:"keyId,omitempty" doc:"The API key that it was begun with, and ends with"`
	UserAgent  string    `json:"userAgent" doc:"What the browser calls itself" example:"Mozilla/5.0"`
	IP         string    `json:"ip" doc:"Where its connection came from" example:"192.0.2.7"`
	CreatedAt  time.Time `json:"createdAt"`
	LastSeenAt time.Time `json:"lastSeenAt" doc:"To the minute"`
	ExpiresAt  time.Time `json:"expiresAt"`
}

func (c controller) list(ctx context.Context, who actor.Actor, _ *struct{}) ([]sessionBody, error) {
	sessions, err := c.service.sessions.List(ctx, who)
	bodies := make([]sessionBody, len(sessions))
	for i, s := range sessions {
		bodies[i] = toSession(s, who)
	}
	return bodies, err
}

func toSession(s login.Session, who actor.Actor) sessionBody {
	return sessionBody{
		SessionID: s.ID, Current: s.ID == who.SessionID, Method: s.Method, KeyID: s.KeyID, UserAgent: s.UserAgent, IP: s.IP,
		CreatedAt: s.CreatedAt, LastSeenAt: s.LastSeenAt, ExpiresAt: s.ExpiresAt,
	}
}

type endInput struct {
	SessionID string `path:"sessionId" maxLength:"64"`
}

func (c controller) end(ctx context.Context, who actor.Actor, in *endInput) (*httpapi.None, error) {
	return nil, c.service.sessions.End(ctx, who, in.SessionID)
}

type ticketInput struct {
	ResultID string `path:"resultId" maxLength:"64"`
	Version  int    `query:"version" minimum:"-1" default:"-1" maximum:"2147483647" doc:"Which execution of the run; the newest when left out, or for -1"`
}

type ticketBody struct {
	Ticket    string    `json:"ticket" example:"eyJhbGciOiJIUzI1NiJ9.eyJydW4iOiJhci0xIn0.c2lnbmF0dXJl"`
	ExpiresAt time.Time `json:"expiresAt" doc:"Until when it connects"`
}

func (c controller) ticket(ctx context.Context, who actor.Actor, in *ticketInput) (ticketBody, error) {
	var wanted *int
	if in.Version >= 0 {
		wanted = &in.Version
	}
	version, err := c.runs.Version(ctx, who, in.ResultID, wanted)
	if err != nil {
		return ticketBody{}, err
	}
	text, expires, err := c.service.accounts.Ticket(who, in.ResultID, version)
	return ticketBody{Ticket: text, ExpiresAt: expires}, err
}

package signin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/login"
	"github.com/portico-run/portico/modules/account/oidc"
)

const (
	oidcPath     = "/v1/auth/oidc/"
	callbackPath = oidcPath + "callback"
	// flowCookie is where a browser keeps a sign-in that has begun.
	flowCookie = "_rf_oidc"
)

var errNoProvider = errs.New(errs.NotFound, "This server has no provider to sign in with.").Do("Its operator sets OIDC_ISSUER.")

type startInput struct {
	Next   string `query:"next" maxLength:"2048" doc:"The path of this server to go on to" example:"/console/runs"`
	Invite string `query:"invite" maxLength:"256" doc:"The code of an invitation, where the server wants one" example:"K7QF2XV5N3ZJ4T6WYB2DHMPRSA"`
}

type callbackInput struct {
	State string `query:"state" maxLength:"256" doc:"As the provider was sent it" example:"K7QF2XV5N3ZJ4T6WYB2DHMPRSA"`
	Code  string `query:"code" maxLength:"4096" doc:"Of the provider" example:"2YotnFZFEjr1zCsicMWpAA"`
}

func (m *Module) registerOIDC(api *httpapi.API, c controller) {
	leads := map[int]string{http.StatusSeeOther: "Where the browser goes"}
	link := map[string]string{"text/html": "<a href=\"/console\">See Other</a>."}
	api.Raw(httpapi.Operation{
		ID: "begin-oidc", Method: http.MethodGet, Path: oidcPath + "start", Tag: tag, Access: httpapi.Public, Summary: "Sign in with the provider, in a browser",
		Errors: []errs.Code{errs.NotFound}, Raw: httpapi.Description{Input: startInput{}, Statuses: leads, Media: link},
	}, c.begin)
	api.Raw(httpapi.Operation{
		ID: "complete-oidc", Method: http.MethodGet, Path: callbackPath, Tag: tag, Access: httpapi.Public, Summary: "Where the provider sends people back to",
		Errors: []errs.Code{errs.NotFound}, Raw: httpapi.Description{Input: callbackInput{}, Statuses: leads, Media: link},
	}, c.complete)
}

func (c controller) begin(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	if c.service.provider == nil {
		return errNoProvider
	}
	q := r.URL.Query()
	address, kept, err := c.service.provider.Begin(r.Context(), c.ownPath(q.Get("next")), q.Get("invite"))
	if err != nil {
		return c.sendBack(w, r, err)
	}
	http.SetCookie(w, c.flow(r, kept))
	c.redirect(w, r, address)
	return nil
}

func (c controller) complete(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	if c.service.provider == nil {
		return errNoProvider
	}
	kept, err := r.Cookie(flowCookie)
	if err != nil {
		return c.sendBack(w, r, err)
	}
	q := r.URL.Query()
	who, flow, err := c.service.provider.Complete(r.Context(), kept.Value, q.Get("state"), q.Get("code"))
	if err != nil {
		return c.sendBack(w, r, err)
	}
	in, err := c.service.SignInPerson(r.Context(), who, flow.Invite, clientOf(r))
	if err != nil {
		return c.sendBack(w, r, err)
	}
	http.SetCookie(w, c.flow(r, ""))
	http.SetCookie(w, c.cookie(r, in.Token, in.Session.ExpiresAt))
	c.redirect(w, r, c.ownPath(flow.Next))
	return nil
}

// sendBack shows the page to sign in again. Why it did not work is in the log.
func (c controller) sendBack(w http.ResponseWriter, r *http.Request, err error) error {
	c.service.logger.WarnContext(r.Context(), "somebody did not sign in with the provider", "reason", err)
	http.SetCookie(w, c.flow(r, ""))
	page := c.home()
	if c.service.settings.Console != "" {
		page += "/login"
	}
	c.redirect(w, r, page+"?failed=oidc")
	return nil
}

func (c controller) redirect(w http.ResponseWriter, r *http.Request, to string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // to the provider, or to a path that ownPath let through
}

// flow is the cookie of a sign-in that has begun; without a value it takes the one
// back that there is. It comes along when the provider sends the browser back.
func (c controller) flow(r *http.Request, kept string) *http.Cookie {
	cookie := c.cookie(r, kept, time.Time{}) //nolint:gosec // as that one
	cookie.Name, cookie.Path = flowCookie, oidcPath
	if kept != "" {
		cookie.MaxAge = int(oidc.FlowLife.Seconds())
	}
	return cookie
}

// home is the path of the console, or of the server where it has none.
func (c controller) home() string { return cmp.Or(c.service.settings.Console, "/") }

// ownPath is a path of this server, or home: a link must not lead elsewhere through it.
func (c controller) ownPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\t\r\n") {
		return c.home()
	}
	return next
}

// SignInPerson begins a session for a person whom the provider named. Who comes for
// the first time becomes a user: the one with the same verified e-mail address, where
// that is allowed, or a new one, as the rule of signing up has it.
func (s *Service) SignInPerson(ctx context.Context, p oidc.Person, invite string, c Client) (SignedIn, error) {
	who := account.Identity{Issuer: p.Issuer, Tenant: oidc.Tenant, Subject: p.Subject}
	uid, err := s.accounts.Person(ctx, who)
	if err != nil && !errors.Is(err, account.ErrUserMissing) {
		return SignedIn{}, err
	}
	return s.enter(ctx, func(tx database.Tx) (login.Session, error) {
		if uid == "" {
			if uid, err = s.meet(tx, p, who, invite); err != nil {
				return login.Session{}, err
			}
		}
		return s.sessions.Begin(tx, login.Session{UID: uid, Method: login.ByOIDC, UserAgent: c.UserAgent, IP: c.IP}, s.accounts.TokenLife())
	})
}

// meet finds or makes the user of a person who comes for the first time.
func (s *Service) meet(tx database.Tx, p oidc.Person, who account.Identity, invite string) (uid string, err error) {
	if p.Email != "" {
		u, err := s.accounts.ByEmail(tx.Handle, p.Email)
		switch {
		case err == nil && s.settings.LinkEmail:
			return u.UID, s.accounts.Join(tx, u.UID, who)
		case err == nil:
			p.Email = "" // it is another user's
		case !errors.Is(err, account.ErrUserMissing):
			return "", err
		}
	}
	name, err := s.accounts.FreeName(tx, p.Name, who)
	if err != nil {
		return "", err
	}
	u, err := s.admit(tx, account.NewUser{Name: name, Email: p.Email}, invite)
	if err != nil {
		return "", err
	}
	return u.UID, s.accounts.Join(tx, u.UID, who)
}

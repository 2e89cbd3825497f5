package pages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/portico-run/portico/modules/console/form"
)

// me is who is signed in.
type me struct {
	UID, Name, Email, Role, Credential, KeyID, SessionID string
}

// Admin reports whether the person sees the administrators' pages.
func (m me) Admin() bool { return m.Role == "admin" }

type session struct {
	SessionID, Method, KeyID, UserAgent, IP string
	Current                                 bool
	CreatedAt, LastSeenAt, ExpiresAt        time.Time
}

type accountView struct {
	Me       me
	Sessions part[[]session]
	Apps     part[[]app]
	Password form.View
	Changed  bool
}

// wordForm asks for what the API asks for.
const wordForm = `{"type":"object","additionalProperties":false,"required":["password"],"properties":{
	"old":{"x-label":"Present password","type":"string","format":"password","description":"Leave it empty if you have none"},
	"password":{"x-label":"New password","type":"string","format":"password","minLength":10,"maxLength":1024}}}`

func (p *Pages) account(v *Visit) (Answer, error) {
	return p.showAccount(v, accountView{Password: p.password.View("password", nil, nil)}, http.StatusOK)
}

func (p *Pages) showAccount(v *Visit, view accountView, status int) (Answer, error) {
	if err := v.get("/v1/auth/me", nil, &view.Me); err != nil {
		return Answer{}, err
	}
	view.Sessions = load[[]session](v, "/v1/auth/sessions", nil)
	view.Apps = load[[]app](v, appsAPI, nil)
	return Answer{Title: "Account", Template: "account", Data: view, Status: status}, nil
}

func (p *Pages) setPassword(v *Visit) (Answer, error) {
	form, ok, err := v.submit(p.password, "password", func(body json.RawMessage) error {
		return v.send(http.MethodPost, "/v1/auth/password", body, nil)
	})
	if err != nil {
		return Answer{}, err
	}
	if !ok {
		return p.showAccount(v, accountView{Password: form}, http.StatusUnprocessableEntity)
	}
	return p.showAccount(v, accountView{Password: p.password.View("password", nil, nil), Changed: true}, http.StatusOK)
}

func (p *Pages) endSession(v *Visit) (Answer, error) {
	err := v.send(http.MethodDelete, "/v1/auth/sessions/"+url.PathEscape(v.R.PathValue("id")), nil, nil)
	return Answer{To: "/account"}, err
}

package pages

import (
	"html/template"
	"net/http"
	"net/url"
	"time"
)

// app is an app that the person let in.
type app struct {
	AppID, Name, Place   string
	Scope                string
	CreatedAt, ExpiresAt time.Time
	UsedAt               *time.Time
}

const appsAPI = "/v1/auth/apps"

// authorizeView asks whether an app is let in. Fields are what it asks for, which the
// answer repeats.
type authorizeView struct {
	Name, App, Place string
	Scope            string
	Fields           map[string]string
	Who              me
}

// Changes reports whether the app may do what changes something.
func (a authorizeView) Changes() bool { return a.Scope != onlyReads }

// Changes reports whether the app may do what changes something.
func (a app) Changes() bool { return a.Scope != onlyReads }

// onlyReads is the scope of apps that change nothing.
const onlyReads = "mcp:read"

// wentView leads back to an app.
type wentView struct {
	To      template.URL
	Allowed bool
	Place   string
}

// requested are the parameters of OAuth, by what the API calls them.
func requested(q url.Values) map[string]string {
	fields := map[string]string{}
	for to, from := range map[string]string{
		"responseType": "response_type", "clientId": "client_id", "redirectUri": "redirect_uri", "state": "state", "scope": "scope", "resource": "resource",
		"codeChallenge": "code_challenge", "codeChallengeMethod": "code_challenge_method",
	} {
		if value := q.Get(from); value != "" {
			fields[to] = value
		}
	}
	return fields
}

func (p *Pages) authorize(v *Visit) (Answer, error) {
	view := authorizeView{Fields: requested(v.R.URL.Query())}
	if err := v.get("/v1/auth/me", nil, &view.Who); err != nil { // who is not signed in signs in, and comes back
		return Answer{}, err
	}
	q := url.Values{}
	for name, value := range view.Fields {
		q.Set(name, value)
	}
	if err := v.get(appsAPI+"/request", q, &view); err != nil {
		return refused(err)
	}
	return Answer{Title: "Let an app in", Template: "authorize", Data: view}, nil
}

func (p *Pages) letIn(v *Visit) (Answer, error) {
	posted, err := v.posted()
	if err != nil {
		return Answer{}, err
	}
	body := map[string]any{"allow": posted.Get("decision") == "allow"}
	for _, name := range []string{"responseType", "clientId", "redirectUri", "state", "scope", "resource", "codeChallenge", "codeChallengeMethod"} {
		if value := posted.Get(name); value != "" {
			body[name] = value
		}
	}
	var answer struct{ Redirect string }
	if err := v.send(http.MethodPost, appsAPI+"/request", body, &answer); err != nil {
		return refused(err)
	}
	// The address is one that the API let through: https, this machine, or an app's scheme.
	view := wentView{To: template.URL(answer.Redirect), Allowed: body["allow"] == true} //nolint:gosec // as said
	if u, err := url.Parse(answer.Redirect); err == nil {
		view.Place = u.Host
	}
	return Answer{Title: "Back to the app", Template: "went", Data: view}, nil
}

// refused says what is wrong with a request of an app: there is more to it than that
// nothing is there.
func refused(err error) (Answer, error) {
	said, ok := ProblemOf(err)
	if !ok || said.Status == http.StatusUnauthorized {
		return Answer{}, err
	}
	return Answer{Title: "The app is not let in", Template: "problem", Data: said, Status: said.Status}, nil
}

func (p *Pages) endApp(v *Visit) (Answer, error) {
	err := v.send(http.MethodDelete, appsAPI+"/"+url.PathEscape(v.R.PathValue("id")), nil, nil)
	return Answer{To: "/account"}, err
}

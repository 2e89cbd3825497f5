package pages

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/portico-run/portico/modules/console/form"
)

// toolsetView is the page of one toolset. One tool has its form open.
type toolsetView struct {
	toolset

	Try     *attempt
	Install *installing
}

// attempt is a tool that is tried, with what was typed and what came of it.
type attempt struct {
	Tool     string
	Form     form.View
	Nonce    string // makes a form that is sent twice one call
	Result   *outcome
	Unusable string // why there is no form
}

// outcome is what a tool answered.
type outcome struct {
	Status, Error, ErrorCode string
	Text                     string // its data, as it is shown
	Bytes                    int
	Cut                      bool
}

// installing is the form in which a toolset is installed or changed.
type installing struct {
	Credential, Config form.View
	Changes            bool // of a toolset that is installed
	Account            string
	Problem            *Problem
}

func (p *Pages) toolset(v *Visit) (Answer, error) {
	return p.showToolset(v, v.R.URL.Query().Get("tool"), nil, nil, http.StatusOK)
}

// showToolset shows a toolset with a form for one of its tools.
func (p *Pages) showToolset(v *Visit, name string, try *attempt, install *installing, status int) (Answer, error) {
	var view toolsetView
	var err error
	if view.toolset, err = describe(v, v.R.PathValue("key")); err != nil {
		return Answer{}, err
	}
	if view.Install = install; install == nil {
		view.Install = view.offer()
	}
	if view.Try = try; try == nil && name != "" {
		view.Try = view.attempt(name)
	}
	return Answer{Title: view.Name, Template: "toolset", Data: view, Status: status}, nil
}

// attempt is the empty form of a tool; nil if there is no such tool.
func (t toolset) attempt(name string) *attempt {
	for _, candidate := range t.Tools {
		if candidate.Name != name {
			continue
		}
		f, err := form.New(candidate.InputSchema)
		if err != nil {
			return &attempt{Tool: name, Unusable: err.Error()}
		}
		return &attempt{Tool: name, Form: f.View("try", nil, nil), Nonce: nonce()}
	}
	return nil
}

// call executes a tool with the arguments of its form.
func (p *Pages) call(v *Visit) (Answer, error) {
	posted, err := v.posted()
	if err != nil {
		return Answer{}, err
	}
	t, err := describe(v, v.R.PathValue("key"))
	if err != nil {
		return Answer{}, err
	}
	name := posted.Get("tool")
	try := t.attempt(name)
	if try == nil || try.Unusable != "" {
		return p.showToolset(v, name, try, nil, http.StatusNotFound)
	}
	f, err := form.New(t.input(name))
	if err != nil {
		return Answer{}, err // attempt has made it
	}
	arguments, wrong := f.Read(posted)
	try.Form = f.View("try", posted, wrong)
	if len(wrong) > 0 {
		return p.showToolset(v, name, try, nil, http.StatusUnprocessableEntity)
	}
	result, err := v.execute(t.Key, name, arguments, posted.Get("nonce"))
	if refused, ok := ProblemOf(err); ok {
		try.Form.Problems = append(try.Form.Problems, form.Link{Message: refused.Message + " " + refused.Detail})
		return p.showToolset(v, name, try, nil, refused.Status)
	}
	if err != nil {
		return Answer{}, err
	}
	try.Result = &result
	return p.showToolset(v, name, try, nil, http.StatusOK)
}

func (t toolset) input(name string) json.RawMessage {
	for _, candidate := range t.Tools {
		if candidate.Name == name {
			return candidate.InputSchema
		}
	}
	return nil
}

// execute calls a tool. A nonce that was used before answers from the record.
func (v *Visit) execute(key, name string, arguments json.RawMessage, nonce string) (outcome, error) {
	var got struct {
		Status, Error, ErrorCode string
		Data                     json.RawMessage
	}
	err := v.sendOnce("/v1/tool/execute", map[string]any{"toolsetKey": key, "toolName": name, "arguments": arguments}, nonce, &got)
	o := outcome{Status: got.Status, Error: got.Error, ErrorCode: got.ErrorCode, Bytes: len(got.Data)}
	o.Text, o.Cut = beginning(got.Data)
	return o, err
}

// beginning is what a page shows of a result.
func beginning(data json.RawMessage) (text string, cut bool) {
	const most = 64 << 10
	if len(data) == 0 || string(data) == "null" {
		return "", false
	}
	if len(data) > most {
		return strings.ToValidUTF8(string(data[:most]), ""), true
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil || b.Len() > 2*most {
		return string(data), false
	}
	return b.String(), false
}

// offer is the form in which a toolset is installed or changed; nil if nothing is
// asked for.
func (t toolset) offer() *installing {
	if t.Type == typeOAuth {
		return &installing{Account: t.Name}
	}
	i := &installing{Changes: t.Installed()}
	credential, config, account := t.forms()
	if account != "" {
		return &installing{Account: account}
	}
	if credential == nil && config == nil {
		return nil
	}
	if credential != nil {
		i.Credential = credential.View("authData", nil, nil).Under("authData")
	}
	if config != nil {
		values, err := config.Values(t.config())
		if err != nil {
			values = nil // settings of an older kind are typed again
		}
		i.Config = config.View("config", values, nil).Under("config")
	}
	return i
}

// config is what the person's own toolset is set to.
func (t toolset) config() json.RawMessage {
	if !t.Installed() {
		return nil
	}
	return t.Toolset.Config
}

// forms are what a toolset asks for: a credential, settings, or an account at a
// provider.
func (t toolset) forms() (credential, config *form.Form, account string) {
	for _, p := range t.AuthPatterns {
		switch {
		case len(p.CredentialItems) > 0 && credential == nil:
			credential = form.OfItems(p.CredentialItems, true)
		case p.Type == "oauth":
			account = p.Provider
		}
	}
	if len(t.ConfigItems) > 0 {
		config = form.OfItems(t.ConfigItems, false)
	}
	return credential, config, account
}

// install gives the person the toolset, or changes it. A credential that is left
// out stays what it is.
func (p *Pages) install(v *Visit) (Answer, error) {
	posted, err := v.posted()
	if err != nil {
		return Answer{}, err
	}
	t, err := describe(v, v.R.PathValue("key"))
	if err != nil {
		return Answer{}, err
	}
	credential, config, _ := t.forms()
	again := &installing{Changes: t.Installed()}
	body := map[string]any{"key": t.Key, "name": t.Name}
	if t.Installed() {
		body["name"] = t.Toolset.Name
	}
	var wrong []form.Problem
	for _, part := range []struct {
		form *form.Form
		name string
		view *form.View
	}{{credential, "authData", &again.Credential}, {config, "config", &again.Config}} {
		if part.form == nil {
			continue
		}
		values := form.Under(part.name, posted)
		object, problems := part.form.Read(values)
		wrong = append(wrong, problems...)
		*part.view = part.form.View(part.name, values, problems).Under(part.name)
		if part.name != "authData" || !t.Installed() || string(object) != "{}" {
			body[part.name] = object
		}
	}
	path := "/v1/tool/toolset/create"
	if t.Installed() {
		path, body["toolsetId"] = "/v1/tool/toolset/update", t.Toolset.ToolsetID
	}
	if credential != nil && body["authData"] != nil {
		body["authType"] = "credentials"
	}
	if len(wrong) == 0 {
		err = v.send(http.MethodPost, path, body, nil)
	}
	if refused, ok := ProblemOf(err); ok && refused.Status < http.StatusInternalServerError {
		again.Problem = &refused
		return p.showToolset(v, "", nil, again, refused.Status)
	}
	if len(wrong) > 0 {
		return p.showToolset(v, "", nil, again, http.StatusUnprocessableEntity)
	}
	return Answer{To: "/toolsets/" + url.PathEscape(t.Key)}, err
}

func (p *Pages) removeToolset(v *Visit) (Answer, error) {
	t, err := describe(v, v.R.PathValue("key"))
	if err != nil {
		return Answer{}, err
	}
	if !t.Installed() {
		return Answer{}, errNoPage
	}
	err = v.send(http.MethodPost, "/v1/tool/toolset/delete", map[string]string{"toolsetId": t.Toolset.ToolsetID}, nil)
	return Answer{To: "/toolsets/" + url.PathEscape(t.Key)}, err
}

// connect sends the person to where the account is: another site, so that the
// page shows where it leads and asks for a click.
func (p *Pages) connect(v *Visit) (Answer, error) {
	key := v.R.PathValue("key")
	t, err := describe(v, key)
	if err != nil {
		return Answer{}, err
	}
	if t.Type == typeOAuth && t.ConnectURL == "" { // it is connected
		return Answer{To: "/toolsets/" + url.PathEscape(key)}, nil
	}
	if t.Type == typeOAuth {
		return Answer{Title: "Connect your account", Template: "leave", Data: t.ConnectURL}, nil
	}
	var begun struct{ RedirectURL string }
	if err := v.send(http.MethodPost, "/v1/tool/composio/"+url.PathEscape(key)+"/authorize", map[string]any{}, &begun); err != nil {
		return Answer{}, err
	}
	return Answer{Title: "Connect your account", Template: "leave", Data: begun.RedirectURL}, nil
}

func (p *Pages) disconnect(v *Visit) (Answer, error) {
	key := v.R.PathValue("key")
	t, err := describe(v, key)
	if err != nil {
		return Answer{}, err
	}
	route := "/v1/tool/composio/" + url.PathEscape(key) + "/revoke"
	if t.Type == typeOAuth {
		route = "/v1/tool/authorizations/" + url.PathEscape(key) + "/disconnect"
	}
	err = v.send(http.MethodPost, route, map[string]any{}, nil)
	return Answer{To: "/toolsets/" + url.PathEscape(key)}, err
}

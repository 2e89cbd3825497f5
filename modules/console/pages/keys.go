package pages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/portico-run/portico/modules/console/form"
)

// key is an API key as the API lists it.
type key struct {
	KeyID, Name, KeyPrefix string
	CreatedAt              time.Time
	LastUsedAt, ExpiresAt  *time.Time
	Scopes                 []string
}

// keysView is the page of keys. Made is the key that was just made, which is
// shown this once.
type keysView struct {
	Keys   []key
	Made   *madeKey
	Create form.View
}

type madeKey struct{ APIKey, Name string }

const keysAPI = "/v1/auth/cli/api-key"

// keyForm asks for what a key is made of.
const keyForm = `{"type":"object","additionalProperties":false,"required":["name"],"properties":{
	"name":{"x-label":"Name","type":"string","minLength":1,"maxLength":100,"description":"What it is for, so that you know later what stops when you revoke it"},
	"expiresInDays":{"x-label":"Days until it expires","type":"integer","minimum":1,"maximum":3650,"description":"Leave it empty for a key that does not expire"},
	"scopes":{"x-label":"What it may do","type":"array","minItems":1,"items":{"enum":["read","run","tools"]},"description":"read: look at everything. run: programs, agents and tools. tools: call tools. None chosen: everything that you may do"}}}`

func (p *Pages) keys(v *Visit) (Answer, error) {
	return p.showKeys(v, nil, p.createKey.View("create", nil, nil), http.StatusOK)
}

func (p *Pages) showKeys(v *Visit, made *madeKey, create form.View, status int) (Answer, error) {
	view := keysView{Made: made, Create: create}
	if err := v.get(keysAPI, nil, &view.Keys); err != nil {
		return Answer{}, err
	}
	return Answer{Title: "API keys", Template: "keys", Data: view, Status: status}, nil
}

// makeKey shows the new key on the page that answers the form: it is stored
// nowhere, and not part of an address.
func (p *Pages) makeKey(v *Visit) (Answer, error) {
	var made madeKey
	view, ok, err := v.submit(p.createKey, "create", func(body json.RawMessage) error {
		return v.send(http.MethodPost, keysAPI, body, &made)
	})
	if err != nil {
		return Answer{}, err
	}
	if !ok {
		return p.showKeys(v, nil, view, http.StatusUnprocessableEntity)
	}
	return p.showKeys(v, &made, p.createKey.View("create", nil, nil), http.StatusOK)
}

func (p *Pages) renameKey(v *Visit) (Answer, error) {
	id := v.R.PathValue("id")
	err := v.send(http.MethodPatch, keysAPI+"/"+url.PathEscape(id), map[string]string{"name": v.R.PostFormValue("name")}, nil)
	return Answer{To: "/keys"}, err
}

func (p *Pages) revokeKey(v *Visit) (Answer, error) {
	err := v.send(http.MethodDelete, keysAPI+"/"+url.PathEscape(v.R.PathValue("id")), nil, nil)
	return Answer{To: "/keys"}, err
}

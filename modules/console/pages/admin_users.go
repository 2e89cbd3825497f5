package pages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/portico-run/portico/modules/console/form"
)

// user is somebody, as administrators see them.
type user struct {
	UID, Name, Email, Role string
	Disabled               bool
	CreatedAt              time.Time
}

// wholeUser is a user with what they have.
type wholeUser struct {
	user

	Keys          []key
	CreditBalance json.Number
	Plan          string
}

type usersView struct {
	Users  []user
	Create form.View
	Next   string
}

const usersAPI = "/v1/admin/users"

// userForm asks for what a user is made of.
const userForm = `{"type":"object","additionalProperties":false,"required":["name"],"properties":{
	"name":{"x-label":"Name","type":"string","minLength":1,"maxLength":64,"description":"Letters, digits, dots, dashes and underscores"},
	"email":{"x-label":"E-mail","type":"string","format":"email"}}}`

// giftForm asks for what is given to a user.
const giftForm = `{"type":"object","additionalProperties":false,"required":["amount"],"properties":{
	"amount":{"x-label":"Credits","type":"number","exclusiveMinimum":0},
	"days":{"x-label":"Days until they expire","type":"integer","minimum":1,"maximum":3650,"default":30},
	"text":{"x-label":"What they are for","type":"string","minLength":1,"maxLength":120}}}`

func (p *Pages) adminUsers(v *Visit) (Answer, error) {
	return p.showUsers(v, p.newUser.View("create", nil, nil), http.StatusOK)
}

func (p *Pages) showUsers(v *Visit, create form.View, status int) (Answer, error) {
	var page list[user]
	if err := v.read("users", pick(v.R.URL.Query(), "cursor"), &page); err != nil {
		return Answer{}, err
	}
	view := usersView{Users: page.Items, Create: create, Next: v.next(page.NextCursor)}
	return Answer{Title: "Users", Template: "admin-users", Data: view, Status: status}, nil
}

func (p *Pages) makeUser(v *Visit) (Answer, error) {
	var made user
	view, ok, err := v.submit(p.newUser, "create", func(body json.RawMessage) error {
		return hidden(v.send(http.MethodPost, usersAPI, body, &made))
	})
	if err != nil {
		return Answer{}, err
	}
	if !ok {
		return p.showUsers(v, view, http.StatusUnprocessableEntity)
	}
	return Answer{To: "/admin/users/" + url.PathEscape(made.UID)}, nil
}

// userView is the page of one user. Nonce makes a gift that is sent twice one gift.
type userView struct {
	wholeUser

	Grant   form.View
	Nonce   string
	Plan    string
	Problem *Problem
}

func (p *Pages) adminUser(v *Visit) (Answer, error) {
	return p.showUser(v, userView{Grant: p.gift.View("grant", nil, nil)}, http.StatusOK)
}

func (p *Pages) showUser(v *Visit, view userView, status int) (Answer, error) {
	if err := v.read("users/"+url.PathEscape(v.R.PathValue("uid")), nil, &view.wholeUser); err != nil {
		return Answer{}, err
	}
	view.Plan, view.Nonce = view.wholeUser.Plan, nonce()
	return Answer{Title: view.Name, Template: "admin-user", Data: view, Status: status}, nil
}

// changeUser does what its button says.
func (p *Pages) changeUser(v *Visit) (Answer, error) {
	posted, err := v.posted()
	if err != nil {
		return Answer{}, err
	}
	change := map[string]any{}
	switch posted.Get("do") {
	case "disable", "enable":
		change["disabled"] = posted.Get("do") == "disable"
	case "admin", "user":
		change["role"] = posted.Get("do")
	case "plan":
		change["plan"] = posted.Get("plan")
	default:
		return Answer{}, errNoForm
	}
	id := url.PathEscape(v.R.PathValue("uid"))
	err = v.send(http.MethodPatch, usersAPI+"/"+id, change, nil)
	if refused, ok := ProblemOf(err); ok && (refused.Status == http.StatusConflict || refused.Status == http.StatusBadRequest) {
		return p.showUser(v, userView{Grant: p.gift.View("grant", nil, nil), Problem: &refused}, refused.Status)
	}
	return Answer{To: "/admin/users/" + id}, hidden(err)
}

func (p *Pages) grantUser(v *Visit) (Answer, error) {
	id := url.PathEscape(v.R.PathValue("uid"))
	view, ok, err := v.submit(p.gift, "grant", func(body json.RawMessage) error {
		var gift map[string]json.RawMessage
		if err := json.Unmarshal(body, &gift); err != nil {
			return errNoForm
		}
		name, err := json.Marshal(v.R.PostForm.Get("nonce"))
		if err != nil {
			return errNoForm
		}
		gift["id"] = name
		return hidden(v.send(http.MethodPost, usersAPI+"/"+id+"/credits", gift, nil))
	})
	if err != nil {
		return Answer{}, err
	}
	if !ok {
		return p.showUser(v, userView{Grant: view}, http.StatusUnprocessableEntity)
	}
	return Answer{To: "/admin/users/" + id}, nil
}

package signin

import (
	"context"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
)

type passwordBody struct {
	Old      string `json:"old,omitempty" maxLength:"1024" doc:"The password that counts now; left out where there is none"`
	Password string `json:"password" minLength:"10" maxLength:"1024" doc:"At least 10 characters, at most 1024 bytes"`
}

func (c controller) changePassword(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	var body passwordBody
	if err := httpapi.ReadJSON(r, &body); err != nil {
		return err
	}
	if err := c.service.ChangePassword(r.Context(), who, body.Old, body.Password, clientOf(r)); err != nil {
		return err
	}
	return httpapi.Write[*httpapi.None](w, nil)
}

type newcomerBody struct {
	Name     string `json:"name" pattern:"^[A-Za-z0-9._-]{1,64}$" doc:"1 to 64 letters, digits, dots, dashes or underscores; nobody else's"`
	Email    string `json:"email,omitempty" maxLength:"320" doc:"Nobody else's"`
	Password string `json:"password" minLength:"10" maxLength:"1024" doc:"At least 10 characters, at most 1024 bytes"`
	Invite   string `json:"invite,omitempty" maxLength:"256" doc:"The code of an invitation, where the server wants one"`
}

func (c controller) signUp(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	var body newcomerBody
	if err := httpapi.ReadJSON(r, &body); err != nil {
		return err
	}
	in, err := c.service.SignUp(r.Context(), Newcomer(body), clientOf(r))
	if err != nil {
		return err
	}
	return c.welcome(w, r, in)
}

type waysBody struct {
	SignUp string `json:"signUp" enum:"off,invite,open" doc:"Who may sign up"`
	OIDC   bool   `json:"oidc" doc:"Whether there is a provider to sign in with, at /v1/auth/oidc/start"`
}

func (c controller) ways(context.Context, actor.Actor, *struct{}) (waysBody, error) {
	rule := Off
	if c.service.settings.SignUp.possible() {
		rule = c.service.settings.SignUp
	}
	return waysBody{SignUp: string(rule), OIDC: c.service.provider != nil}, nil
}

type inviteBody struct {
	Code      string    `json:"code" example:"K7QF2XV5N3ZJ4T6WYB2DHMPRSA" doc:"For invite of POST /v1/auth/signup"`
	Link      string    `json:"link,omitempty" example:"https://portico.example.com/console/signup?invite=K7QF2XV5N3ZJ4T6WYB2DHMPRSA" doc:"Left out where the server has no console"`
	ExpiresAt time.Time `json:"expiresAt"`
}

func (c controller) invite(ctx context.Context, who actor.Actor, _ *struct{}) (inviteBody, error) {
	made, err := c.service.Invite(ctx, who)
	return inviteBody(made), err
}

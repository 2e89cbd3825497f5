package authserver

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

const grantCode, grantRefresh = "authorization_code", "refresh_token"

// AppRegistration is what an app says of itself. Everything else that it may say has
// one answer here.
type AppRegistration struct {
	Redirects []string `json:"redirect_uris" minItems:"1" maxItems:"10" nullable:"false" doc:"https addresses, http ones of this machine, and ones of apps, such as notes://connected" example:"http://127.0.0.1:7100/callback"`
	Name      string   `json:"client_name,omitempty" maxLength:"100" example:"Notes"`
}

type registeredAppBody struct {
	ClientID string `json:"client_id" example:"app.c2VhbGVk"`
	IssuedAt int64  `json:"client_id_issued_at" example:"1795478400"`
	AppRegistration

	Method        string   `json:"token_endpoint_auth_method" enum:"none"`
	GrantTypes    []string `json:"grant_types" nullable:"false" example:"authorization_code,refresh_token"`
	ResponseTypes []string `json:"response_types" nullable:"false" example:"code"`
	Scope         string   `json:"scope" example:"mcp mcp:read"`
}

func (c controller) registerApp(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	var body AppRegistration
	if err := httpapi.ReadJSON(r, &body); err != nil {
		return err
	}
	id, err := c.service.Registered(client{Name: body.Name, Redirects: body.Redirects})
	if err != nil {
		return err
	}
	noStore(w)
	return write(w, http.StatusCreated, registeredAppBody{
		ClientID: id, IssuedAt: c.service.deps.Now().Unix(), AppRegistration: body,
		Method: "none", GrantTypes: []string{grantCode, grantRefresh}, ResponseTypes: []string{"code"}, Scope: allScopes(),
	})
}

type appTokenForm struct {
	Grant    string `json:"grant_type" enum:"authorization_code,refresh_token"`
	ClientID string `json:"client_id" maxLength:"4096" example:"https://app.example.com/client.json"`
	Code     string `json:"code,omitempty" maxLength:"128" example:"K7QF2XV5N3ZJ4T6WYB2DHMPRSA"`
	Redirect string `json:"redirect_uri,omitempty" maxLength:"2048" example:"http://127.0.0.1:7100/callback"`
	Verifier string `json:"code_verifier,omitempty" minLength:"43" maxLength:"128" example:"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"`
	Refresh  string `json:"refresh_token,omitempty" maxLength:"128" example:"K7QF2XV5N3ZJ4T6WYB2DHMPRSA"`
	Resource string `json:"resource,omitempty" maxLength:"2048" example:"http://localhost:8080/mcp/oauth"`
	Scope    string `json:"scope,omitempty" maxLength:"1024" doc:"With refresh_token: a narrower one than was allowed" example:"mcp:read"`
}

type appTokensBody struct {
	Access  string `json:"access_token" example:"rf_0kN7uhbUJU1p1r2wW1gFWFOEjXk3mB9"`
	Type    string `json:"token_type" enum:"Bearer"`
	Seconds int64  `json:"expires_in" example:"3600"`
	Refresh string `json:"refresh_token" example:"K7QF2XV5N3ZJ4T6WYB2DHMPRSA"`
	Scope   string `json:"scope" example:"mcp"`
}

func (c controller) token(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	if err := form(r); err != nil {
		return err
	}
	var (
		t   Tokens
		err error
	)
	switch f := r.PostForm; f.Get("grant_type") {
	case grantCode:
		t, err = c.service.Redeem(r.Context(), Redemption{
			Code: f.Get("code"), ClientID: f.Get("client_id"), Redirect: f.Get("redirect_uri"), Verifier: f.Get("code_verifier"), Resource: f.Get("resource"),
		})
	case grantRefresh:
		t, err = c.service.Refresh(r.Context(), Renewal{Token: f.Get("refresh_token"), ClientID: f.Get("client_id"), Resource: f.Get("resource"), Scope: f.Get("scope")})
	default:
		err = errGrantType
	}
	if err != nil {
		return err
	}
	noStore(w)
	return write(w, http.StatusOK, appTokensBody{Access: t.Access, Type: "Bearer", Seconds: int64(accessLife.Seconds()), Refresh: t.Refresh, Scope: t.Scope})
}

// maxToken is the longest token that can be given back, in bytes.
const maxToken = 256

type appRevokeForm struct {
	Token string `json:"token" minLength:"1" maxLength:"256" example:"K7QF2XV5N3ZJ4T6WYB2DHMPRSA"`
}

func (c controller) revoke(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	if err := form(r); err != nil {
		return err
	}
	if token := r.PostForm.Get("token"); token == "" || len(token) > maxToken {
		return errNoToken
	}
	if err := c.service.Revoke(r.Context(), r.PostForm.Get("token")); err != nil {
		return err
	}
	return write(w, http.StatusOK, httpapi.None{})
}

// form reads a form. Fields that this server knows are there once at most.
func form(r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return errs.New(errs.Unsupported, "The body is no form.").Do("Send application/x-www-form-urlencoded.")
	}
	if err := r.ParseForm(); err != nil {
		return errs.New(errs.Invalid, "The form cannot be read.").With(err)
	}
	for _, name := range []string{"grant_type", "client_id", "code", "redirect_uri", "code_verifier", "refresh_token", "resource", "scope", "token"} {
		if len(r.PostForm[name]) > 1 {
			return errs.Newf(errs.Invalid, "%s is there more than once.", name)
		}
	}
	return nil
}

func write(w http.ResponseWriter, status int, body any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone
	return nil
}

// oauthCode is what OAuth calls an error: its private cause.
type oauthCode string

// Error implements error.
func (c oauthCode) Error() string { return string(c) }

func protocol(code oauthCode, message string) *errs.Error {
	return errs.New(errs.Invalid, message).With(code)
}

var (
	errGrantType = protocol("unsupported_grant_type", "grant_type is neither authorization_code nor refresh_token.")
	errNoToken   = protocol("invalid_request", "The field token is missing, or longer than a token is.")
	errGrant     = protocol("invalid_grant", "The code or the refresh token is not valid, or not any more.")
	errTarget    = protocol("invalid_target", "The resource is not one of this server's.")
)

// appErrorBody is what apps expect of an error.
type appErrorBody struct {
	Code        string `json:"error" example:"invalid_grant"`
	Description string `json:"error_description" example:"The code is not valid any more."`
	TraceID     string `json:"traceId,omitempty"`
}

func refusal(e *errs.Error, traceID string) any {
	b := appErrorBody{Code: "invalid_request", Description: e.Message, TraceID: traceID}
	if e.Detail != "" {
		b.Description += " " + e.Detail
	}
	if e.Code.Status() >= http.StatusInternalServerError {
		b.Code = "server_error"
	}
	if code, ok := errors.AsType[oauthCode](e.Unwrap()); ok {
		b.Code = string(code)
	}
	return b
}

package account

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

type controller struct{ service *Service }

const keyPath = "/v1/auth/cli/api-key"

func (c controller) register(api *httpapi.API) {
	op := func(id, method, path, summary string, errors ...errs.Code) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: method, Path: path, Summary: summary, Tag: "accounts", Errors: errors}
	}
	httpapi.Register(api, op("create-api-key", http.MethodPost, keyPath, "Create an API key; it is shown this once"), c.create)
	httpapi.Register(api, op("list-api-keys", http.MethodGet, keyPath, "The caller's API keys, newest first"), c.list)
	httpapi.Register(api, op("rename-api-key", http.MethodPatch, keyPath+"/{keyId}", "Rename an API key", errs.NotFound), c.rename)
	httpapi.Register(api, op("revoke-api-key", http.MethodDelete, keyPath+"/{keyId}", "Revoke an API key", errs.NotFound), c.revoke)
	validate := op("validate-api-key", http.MethodPost, keyPath+"/validate", "Whether an API key is valid")
	validate.Access = httpapi.Public
	httpapi.Register(api, validate, c.validate)
	httpapi.Register(api, op("list-audit", http.MethodGet, "/v1/auth/audit", "Changes to the caller's keys, credentials and connections, newest first"), c.audit)
}

type auditBody struct {
	Action    string            `json:"action" doc:"key.create, toolset.update, connection.revoke, …"`
	Subject   string            `json:"subject" doc:"The id of the key, or the toolset"`
	KeyID     string            `json:"keyId,omitempty" doc:"The API key that asked for it"`
	Detail    map[string]string `json:"detail"`
	CreatedAt time.Time         `json:"createdAt"`
}

func (c controller) audit(ctx context.Context, who actor.Actor, in *httpapi.PageQuery) (httpapi.Page[auditBody], error) {
	page, err := c.service.Audit(ctx, who, *in)
	return httpapi.MapPage(page, func(e audit.Event) auditBody {
		return auditBody{Action: e.Action, Subject: e.Subject, KeyID: e.KeyID, Detail: e.Detail, CreatedAt: e.CreatedAt}
	}), err
}

type createInput struct {
	Body struct {
		Name          string   `json:"name" documented:"minLength=1 maxLength=100 pattern=^[^\\x00]*[^\\x00\\s][^\\x00]*$" doc:"1 to 100 characters"`
		ExpiresInDays int      `json:"expiresInDays,omitempty" documented:"minimum=0 maximum=3650" doc:"0 for a key that does not expire"`
		Scopes        []string `json:"scopes,omitempty" maxItems:"3" enum:"read,run,tools" doc:"read: read, and change nothing; run: run programs and agents, and call tools; tools: call tools. Left out, or empty, for everything"`
	}
}

type createdBody struct {
	KeyID     string     `json:"keyId"`
	Name      string     `json:"name"`
	KeyPrefix string     `json:"keyPrefix"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt"`
	Scopes    []string   `json:"scopes" nullable:"false" doc:"What it may do; empty for everything"`
	APIKey    string     `json:"apiKey" doc:"The key itself; it cannot be shown again"`
}

func (c controller) create(ctx context.Context, who actor.Actor, in *createInput) (createdBody, error) {
	k, plain, err := c.service.CreateKey(ctx, who, in.Body.Name, in.Body.ExpiresInDays, in.Body.Scopes...)
	return createdBody{
		KeyID: k.ID, Name: k.Name, KeyPrefix: k.Prefix, CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, Scopes: k.Rights.Names(), APIKey: plain.Reveal(),
	}, err
}

func (c controller) list(ctx context.Context, who actor.Actor, _ *struct{}) ([]keyBody, error) {
	keys, err := c.service.Keys(ctx, who)
	bodies := make([]keyBody, len(keys))
	for i, k := range keys {
		bodies[i] = toBody(k)
	}
	return bodies, err
}

type renameInput struct {
	KeyID string `path:"keyId" maxLength:"64"`
	Body  struct {
		Name string `json:"name" documented:"minLength=1 maxLength=100 pattern=^[^\\x00]*[^\\x00\\s][^\\x00]*$" doc:"1 to 100 characters"`
	}
}

func (c controller) rename(ctx context.Context, who actor.Actor, in *renameInput) (*httpapi.None, error) {
	return nil, c.service.RenameKey(ctx, who, in.KeyID, in.Body.Name)
}

type revokeInput struct {
	KeyID string `path:"keyId" maxLength:"64"`
}

func (c controller) revoke(ctx context.Context, who actor.Actor, in *revokeInput) (*httpapi.None, error) {
	return nil, c.service.RevokeKey(ctx, who, in.KeyID)
}

type validateInput struct {
	Body struct {
		APIKey string `json:"apiKey" maxLength:"256"`
	}
}

type validBody struct {
	Valid bool       `json:"valid"`
	User  *validUser `json:"user,omitempty"`
}

type validUser struct {
	UID string `json:"uid"`
}

func (c controller) validate(ctx context.Context, _ actor.Actor, in *validateInput) (validBody, error) {
	uid, err := c.service.KeyOwner(ctx, in.Body.APIKey)
	if errors.Is(err, ErrBadKey) {
		return validBody{}, nil
	}
	return validBody{Valid: true, User: &validUser{UID: uid}}, err
}

type keyBody struct {
	KeyID      string     `json:"keyId"`
	Name       string     `json:"name"`
	KeyPrefix  string     `json:"keyPrefix"`
	CreatedAt  time.Time  `json:"createdAt"`
	LastUsedAt *time.Time `json:"lastUsedAt"`
	ExpiresAt  *time.Time `json:"expiresAt"`
	Scopes     []string   `json:"scopes" nullable:"false" doc:"What it may do; empty for everything"`
	Model      string     `json:"model,omitempty" doc:"The model of agents that are asked with it and name none; left out for the first" example:"small"`
}

func toBody(k Key) keyBody {
	return keyBody{KeyID: k.ID, Name: k.Name, KeyPrefix: k.Prefix, CreatedAt: k.CreatedAt, LastUsedAt: k.LastUsedAt, ExpiresAt: k.ExpiresAt, Scopes: k.Rights.Names(), Model: k.Model}
}

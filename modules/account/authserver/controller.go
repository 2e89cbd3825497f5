package authserver

import (
	"context"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
)

type controller struct{ service *Service }

// RequestFields are what an app puts into the address of the page where people let it in.
type RequestFields struct {
	ResponseType string `json:"responseType" query:"responseType" required:"true" enum:"code"`
	ClientID     string `json:"clientId" query:"clientId" required:"true" minLength:"1" maxLength:"4096" example:"https://app.example.com/client.json"`
	RedirectURI  string `json:"redirectUri" query:"redirectUri" required:"true" minLength:"1" maxLength:"2048" example:"http://127.0.0.1:7100/callback"`
	State        string `json:"state,omitempty" query:"state" maxLength:"2048" example:"af0ifjsldkj"`
	Scope        string `json:"scope,omitempty" query:"scope" maxLength:"1024" example:"mcp"`
	Resource     string `json:"resource,omitempty" query:"resource" maxLength:"2048" example:"http://localhost:8080/mcp/oauth"`
	Challenge    string `json:"codeChallenge" query:"codeChallenge" required:"true" minLength:"43" maxLength:"43" pattern:"^[A-Za-z0-9_-]{43}$" example:"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"`
	Method       string `json:"codeChallengeMethod" query:"codeChallengeMethod" required:"true" enum:"S256"`
}

type readAppInput struct{ RequestFields }

type requestedAppBody struct {
	Name  string `json:"name" doc:"What the app calls itself: nobody has checked it" example:"Notes"`
	App   string `json:"app" doc:"The host whose document describes the app; empty for one that registered itself" example:"app.example.com"`
	Place string `json:"place" doc:"Where the browser goes back to" example:"127.0.0.1:7100"`
	Scope string `json:"scope" enum:"mcp,mcp:read" doc:"What it may: everything that the MCP server offers, or what changes nothing"`
}

func (c controller) read(ctx context.Context, _ actor.Actor, in *readAppInput) (requestedAppBody, error) {
	asked, err := c.service.Read(ctx, Request(in.RequestFields))
	return requestedAppBody(asked), err
}

type decideAppInput struct {
	Body struct {
		RequestFields
		Allow bool `json:"allow"`
	}
}

type decidedAppBody struct {
	Redirect string `json:"redirect" doc:"Where the browser goes" example:"http://127.0.0.1:7100/callback?code=K7QF2XV5N3ZJ4T6WYB2DHMPRSA&state=af0ifjsldkj"`
}

func (c controller) decide(ctx context.Context, who actor.Actor, in *decideAppInput) (decidedAppBody, error) {
	to, err := c.service.Decide(ctx, who, Request(in.Body.RequestFields), in.Body.Allow)
	return decidedAppBody{to}, err
}

type appBody struct {
	AppID     string     `json:"appId" example:"app-1a2b3c4d5e6f"`
	Name      string     `json:"name" doc:"What the app calls itself" example:"Notes"`
	Place     string     `json:"place" doc:"Where the browser went back to" example:"127.0.0.1:7100"`
	Scope     string     `json:"scope" enum:"mcp,mcp:read" doc:"What it may"`
	CreatedAt time.Time  `json:"createdAt"`
	UsedAt    *time.Time `json:"usedAt,omitempty" doc:"When it last got a token"`
	ExpiresAt time.Time  `json:"expiresAt" doc:"Unless it gets a token before"`
}

func (c controller) list(ctx context.Context, who actor.Actor, _ *struct{}) ([]appBody, error) {
	apps, err := c.service.Apps(ctx, who)
	bodies := make([]appBody, len(apps))
	for i, a := range apps {
		bodies[i] = appBody(a)
	}
	return bodies, err
}

type endAppInput struct {
	AppID string `path:"appId" maxLength:"64"`
}

func (c controller) end(ctx context.Context, who actor.Actor, in *endAppInput) (*httpapi.None, error) {
	return nil, c.service.End(ctx, who, in.AppID)
}

type mcpResourceBody struct {
	Resource string   `json:"resource" example:"http://localhost:8080/mcp/oauth"`
	Servers  []string `json:"authorization_servers" nullable:"false" example:"http://localhost:8080/oauth"`
	Scopes   []string `json:"scopes_supported,omitempty" nullable:"false" example:"mcp,mcp:read"`
	Methods  []string `json:"bearer_methods_supported" nullable:"false" example:"header"`
	Name     string   `json:"resource_name" example:"Portico"`
}

func (s *Service) resource() mcpResourceBody {
	c := s.deps.Settings
	b := mcpResourceBody{Resource: c.Endpoint + c.Resource, Servers: []string{c.Issuer}, Methods: []string{"header"}, Name: "Portico"}
	if c.Issuer == "" {
		b.Servers, b.Scopes = []string{c.Endpoint + issuerPath}, scopes()
	}
	return b
}

type authorizationServerBody struct {
	Issuer         string   `json:"issuer" example:"http://localhost:8080/oauth"`
	Authorize      string   `json:"authorization_endpoint" example:"http://localhost:8080/console/authorize"`
	Token          string   `json:"token_endpoint" example:"http://localhost:8080/oauth/token"`
	Register       string   `json:"registration_endpoint" example:"http://localhost:8080/oauth/register"`
	Revoke         string   `json:"revocation_endpoint" example:"http://localhost:8080/oauth/revoke"`
	Scopes         []string `json:"scopes_supported" nullable:"false" example:"mcp,mcp:read"`
	ResponseTypes  []string `json:"response_types_supported" nullable:"false" example:"code"`
	ResponseModes  []string `json:"response_modes_supported" nullable:"false" example:"query"`
	GrantTypes     []string `json:"grant_types_supported" nullable:"false" example:"authorization_code,refresh_token"`
	TokenMethods   []string `json:"token_endpoint_auth_methods_supported" nullable:"false" example:"none"`
	RevokeMethods  []string `json:"revocation_endpoint_auth_methods_supported" nullable:"false" example:"none"`
	Challenges     []string `json:"code_challenge_methods_supported" nullable:"false" example:"S256"`
	Documents      bool     `json:"client_id_metadata_document_supported" example:"true"`
	IssuerReturned bool     `json:"authorization_response_iss_parameter_supported" example:"true"`
}

func (s *Service) server() authorizationServerBody {
	at := s.deps.Settings.Endpoint
	none := []string{"none"}
	return authorizationServerBody{
		Issuer: at + issuerPath, Authorize: at + s.deps.Settings.Consent, Token: at + tokenPath, Register: at + registerPath, Revoke: at + revokePath,
		Scopes: scopes(), ResponseTypes: []string{"code"}, ResponseModes: []string{"query"}, GrantTypes: []string{grantCode, grantRefresh},
		TokenMethods: none, RevokeMethods: none, Challenges: []string{"S256"}, Documents: true, IssuerReturned: true,
	}
}

func noStore(w http.ResponseWriter) { w.Header().Set("Cache-Control", "no-store") }

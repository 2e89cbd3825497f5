package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
)

// The ways in which a client shows a token endpoint that it is itself.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
)

// client is this server as an authorization server knows it.
type client struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
	Method string `json:"method"`
	// Registered says that it came about by dynamic registration.
	Registered bool `json:"registered,omitempty"`
	// Expires is when its secret ends, in seconds since 1970; 0 for never.
	Expires int64 `json:"expires,omitempty"`
}

// Document describes this server to authorization servers. Those that read such
// documents know it by the address of the document.
type Document struct {
	ClientID        string   `json:"client_id,omitempty" example:"https://portico.example.com/v1/mcp/oauth/client.json"`
	ClientName      string   `json:"client_name" example:"Portico"`
	ClientURI       string   `json:"client_uri,omitempty" example:"https://portico.example.com"`
	RedirectURIs    []string `json:"redirect_uris" example:"[\"https://portico.example.com/v1/mcp/oauth/callback\"]"`
	GrantTypes      []string `json:"grant_types" example:"[\"authorization_code\"]"`
	ResponseTypes   []string `json:"response_types" example:"[\"code\"]"`
	ApplicationType string   `json:"application_type" example:"web"`
	AuthMethod      string   `json:"token_endpoint_auth_method" example:"none"`
	Scope           string   `json:"scope,omitempty" example:"tools"`
}

// Document is what this server serves as its client id.
func (s *Service) Document() Document {
	return Document{
		ClientID: s.endpoint + s.kind.Path + clientPath, ClientName: "Portico", ClientURI: s.endpoint, RedirectURIs: []string{s.callback()},
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, ApplicationType: "web", AuthMethod: methodNone,
	}
}

// clientFor is this server at an authorization server: the client that was
// registered by hand, else the document that this server serves, else one that is
// registered now.
func (s *Service) clientFor(ctx context.Context, of Target, m authority) (client, error) {
	switch {
	case of.Client.ID != "":
		return client{ID: of.Client.ID, Secret: of.Client.Secret, Method: methodFor(m, of.Client.Secret)}, nil
	case m.Documents && strings.HasPrefix(s.endpoint, "https://"):
		return client{ID: s.endpoint + s.kind.Path + clientPath, Method: methodNone}, nil
	case m.RegistrationEndpoint != "":
		return s.registeredAt(ctx, placeOf(of), m)
	}
	return client{}, errs.Newf(errs.Conflict, "The authorization server of %s takes only clients that were registered by hand.", of.Name).
		Do("Register one there with the redirect URI " + s.redirectURI(of) + " and give its id in the server's settings.")
}

// methodFor is how a client with a secret presents it; basic where the server does
// not say, as the standard has it.
func methodFor(m authority, secret string) string {
	switch {
	case secret == "":
		return methodNone
	case len(m.Methods) == 0 || slices.Contains(m.Methods, methodBasic):
		return methodBasic
	}
	return methodPost
}

// registeredAt is the client that was registered at an issuer, or registers one.
func (s *Service) registeredAt(ctx context.Context, p place, m authority) (client, error) {
	row, err := s.rows.registered(s.db.Read(ctx), m.Issuer, s.callback(), s.now())
	if err != nil {
		return client{}, err
	}
	var c client
	if row.PK != 0 {
		if err := s.open(row.Client, &c); err == nil {
			return c, nil
		}
		s.logger.WarnContext(ctx, "a registered client cannot be read; another one is registered", "issuer", m.Issuer)
	}
	return s.register(ctx, p, m)
}

// remember keeps a registered client for other users of its issuer. That is done
// where a user has tokens of it: of one server, a user has those of one issuer.
func (s *Service) remember(tx database.Tx, issuer string, c client) error {
	sealed, err := s.seal(c)
	if err != nil {
		return err
	}
	row := clientRow{Issuer: issuer, RedirectURI: s.callback(), Client: sealed, CreatedAt: s.now()}
	if c.Expires != 0 {
		row.ExpiresAt = new(time.Unix(c.Expires, 0).UTC())
	}
	return s.rows.saveClient(tx, row)
}

// longestClient bounds what an authorization server calls a client, and its secret,
// in bytes.
const longestClient = 2 << 10

// register makes this server a client of an authorization server.
func (s *Service) register(ctx context.Context, p place, m authority) (client, error) {
	d := s.Document()
	d.ClientID = "" // the authorization server makes one
	if len(m.Methods) > 0 && !slices.Contains(m.Methods, methodNone) {
		d.AuthMethod = methodFor(m, "some")
	}
	d.Scope = strings.Join(m.Scopes, " ")
	text, err := json.Marshal(d)
	if err != nil {
		return client{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.RegistrationEndpoint, bytes.NewReader(text))
	if err != nil {
		return client{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	status, body, err := s.do(ctx, p, r)
	if err != nil {
		return client{}, err
	}
	if status != http.StatusCreated && status != http.StatusOK {
		return client{}, fmt.Errorf("the registration of a client was refused: %w", answered(status, body))
	}
	var made struct {
		ID      string `json:"client_id"`
		Secret  string `json:"client_secret"`
		Method  string `json:"token_endpoint_auth_method"`
		Expires int64  `json:"client_secret_expires_at"`
	}
	if err := json.Unmarshal(body, &made); err != nil || made.ID == "" {
		return client{}, fmt.Errorf("the registration of a client has no client_id: %w", err)
	}
	if max(len(made.ID), len(made.Secret), len(made.Method)) > longestClient {
		return client{}, fmt.Errorf("the registration of a client has a member of more than %d bytes", longestClient)
	}
	c := client{ID: made.ID, Secret: made.Secret, Method: made.Method, Registered: true}
	if c.Method == "" {
		c.Method = methodFor(m, made.Secret)
	}
	if made.Secret != "" {
		c.Expires = made.Expires
	}
	return c, nil
}

func (s *Service) seal(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return s.box.Seal(text), nil
}

func (s *Service) open(sealed string, into any) error {
	text, err := s.box.Open(sealed)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

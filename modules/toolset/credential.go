package toolset

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
)

// CredentialType says how a credential is presented to an upstream.
type CredentialType string

// The ways to present a credential.
const (
	// Automatic presents an API key as the method's headers ask for it: in
	// place of ${apiKey} in Authorization, in the header whose name contains
	// api-key, or as a bearer token: docs/wire/refly.md#presenting-a-credential.
	Automatic CredentialType = "auto"
	Header    CredentialType = "header" // in the header Name
	Bearer    CredentialType = "bearer" // Authorization: Bearer
	Basic     CredentialType = "basic"  // Authorization: Basic, Username and Value
	Query     CredentialType = "query"  // in the query parameter Name
	Cookie    CredentialType = "cookie" // in the cookie Name
	// ClientCredentials gets tokens of OAuth 2 at the URL Name for the client
	// Username with the secret Value, and presents them as bearer tokens.
	ClientCredentials CredentialType = "clientCredentials"
	// AuthorizationCode stands for tokens of OAuth 2 that each user authorizes this
	// server for: at the URL Authorize, with the client Username and its secret Value,
	// which is empty where it has none; Name is the URL that gives tokens.
	AuthorizationCode CredentialType = "authorizationCode"
	// Volcengine signs requests with the secret Value of the access key Username,
	// for the region and service Name, as region/service.
	Volcengine CredentialType = "volcengine"
	// Account is no secret: the account Name of the user Username at Composio.
	Account CredentialType = "account"
)

// Credential is what an upstream wants to see before it works for us. The
// zero value is none.
type Credential struct {
	Type     CredentialType
	Name     string // of the header, the query parameter or the cookie
	Username string
	Value    Secret
	Scopes   string // of OAuth 2, with blanks between
	// Authorize is where users of AuthorizationCode agree.
	Authorize string
	// Also are those that go with it. They have no Also.
	Also []Credential
}

// None reports whether there is no credential.
func (c Credential) None() bool { return c.Type == "" }

// Bearer is the token that is presented; empty where none is.
func (c Credential) Bearer() string {
	for _, one := range append([]Credential{c}, c.Also...) {
		if one.Type == Bearer {
			return one.Value.Reveal()
		}
	}
	return ""
}

// Secret is a text that shows itself only to who asks for it by Reveal.
type Secret string

const redacted = "[redacted]"

// Reveal returns the secret itself, for the request that carries it.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer without showing the secret.
func (Secret) String() string { return redacted }

// Format implements fmt.Formatter: no verb shows the secret.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalJSON implements json.Marshaler without showing the secret.
func (Secret) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }

// LogValue implements slog.LogValuer without showing the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// stored is a credential as it is sealed: our own form, and the names that
// users send: docs/wire/refly.md#credentials-of-toolsets.
type stored struct {
	Type        CredentialType `json:"type,omitempty"`
	Name        string         `json:"name,omitempty"`
	Username    string         `json:"username,omitempty"`
	Value       string         `json:"value,omitempty"`
	APIKey      string         `json:"apiKey,omitempty"`
	AccessToken string         `json:"accessToken,omitempty"`
	APIToken    string         `json:"apiToken,omitempty"`
	Password    string         `json:"password,omitempty"`
	AccessKeyID string         `json:"accessKeyId,omitempty"`
	SecretKey   string         `json:"secretAccessKey,omitempty"`
	Region      string         `json:"region,omitempty"`
	Service     string         `json:"service,omitempty"`
	Scopes      string         `json:"scopes,omitempty"`
	Authorize   string         `json:"authorize,omitempty"`
	Also        []stored       `json:"also,omitempty"`
}

// storedOf is the form of a credential of ours.
func storedOf(c Credential) stored {
	s := stored{Type: c.Type, Name: c.Name, Username: c.Username, Value: c.Value.Reveal(), Scopes: c.Scopes, Authorize: c.Authorize}
	for _, more := range c.Also {
		s.Also = append(s.Also, storedOf(more))
	}
	return s
}

func (s stored) credential() Credential {
	c := Credential{Type: s.Type, Name: s.Name, Username: s.Username, Value: Secret(s.Value), Scopes: s.Scopes, Authorize: s.Authorize}
	for _, more := range s.Also {
		c.Also = append(c.Also, more.credential())
	}
	return c
}

// Plain is the form in which an operator's credential is sealed; nil for none.
func (c *Credential) Plain() []byte {
	if c == nil {
		return nil
	}
	text, _ := json.Marshal(storedOf(*c)) //nolint:gosec // it is sealed; texts always have a JSON form
	return text
}

// ParseCredential reads an opened credential: one of ours, the object a user
// sent as authData, or a bare API key.
func ParseCredential(opened []byte) (Credential, error) {
	text := strings.TrimSpace(string(opened))
	if !strings.HasPrefix(text, "{") {
		return Credential{Type: Automatic, Value: Secret(text)}, nil
	}
	var s stored
	if err := json.Unmarshal(opened, &s); err != nil {
		return Credential{}, fmt.Errorf("the stored credential is not readable: %w", err)
	}
	switch {
	case s.Type != "":
		return s.credential(), nil
	case s.AccessKeyID != "" && s.SecretKey != "":
		return Credential{Type: Volcengine, Name: s.Region + "/" + s.Service, Username: s.AccessKeyID, Value: Secret(s.SecretKey)}, nil
	case s.Username != "" && s.Password != "":
		return Credential{Type: Basic, Username: s.Username, Value: Secret(s.Password)}, nil
	case s.AccessToken != "":
		return Credential{Type: Bearer, Value: Secret(s.AccessToken)}, nil
	case s.APIToken != "":
		return Credential{Type: Bearer, Value: Secret(s.APIToken)}, nil
	case s.APIKey != "":
		return Credential{Type: Automatic, Value: Secret(s.APIKey)}, nil
	}
	return Credential{}, nil
}

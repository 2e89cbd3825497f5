package composio

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Account is a user's account at a service.
type Account struct {
	ID      string `json:"id"`
	UserID  string `json:"user_id"`
	Status  string `json:"status"` // Active, or why not
	Toolkit struct {
		Slug string `json:"slug"`
	} `json:"toolkit"`
	AuthConfig struct {
		ID string `json:"id"`
	} `json:"auth_config"`
}

// Active is the status of an account that can be used.
const Active = "ACTIVE"

// ActiveAccount finds the user's account for a toolkit; nil where there is none.
func (c *Client) ActiveAccount(ctx context.Context, userID, toolkit string) (*Account, error) {
	accounts, err := pages[Account](ctx, c, "/connected_accounts", url.Values{
		"user_ids": {userID}, "toolkit_slugs": {toolkit}, "statuses": {Active}, "limit": {"100"},
	})
	if err != nil {
		return nil, err
	}
	// The service is not relied on for what belongs to whom.
	i := slices.IndexFunc(accounts, func(a Account) bool {
		return a.UserID == userID && strings.EqualFold(a.Toolkit.Slug, toolkit) && a.Status == Active
	})
	if i < 0 {
		return nil, nil //nolint:nilnil // none is an answer
	}
	return &accounts[i], nil
}

// authConfig is how accounts of a toolkit authenticate.
type authConfig struct {
	ID     string `json:"id"`
	Scheme string `json:"auth_scheme"`
}

const (
	schemeOAuth2 = "OAUTH2"
	schemeAPIKey = "API_KEY"
)

// authConfig finds the way in which accounts of a toolkit authenticate, or makes
// one.
func (c *Client) authConfig(ctx context.Context, toolkit, scheme string) (string, error) {
	configs, err := pages[authConfig](ctx, c, "/auth_configs", url.Values{"toolkit_slug": {toolkit}, "limit": {"100"}})
	if err != nil {
		return "", err
	}
	if i := slices.IndexFunc(configs, func(a authConfig) bool { return a.Scheme == "" || a.Scheme == scheme }); i >= 0 {
		return configs[i].ID, nil
	}
	config := map[string]any{"type": "use_composio_managed_auth", "name": toolkit}
	if scheme == schemeAPIKey {
		config = map[string]any{"type": "use_custom_auth", "authScheme": schemeAPIKey, "credentials": map[string]any{}}
	}
	var made struct {
		AuthConfig authConfig `json:"auth_config"`
	}
	err = c.call(ctx, ask{method: http.MethodPost, path: "/auth_configs", body: map[string]any{"toolkit": map[string]string{"slug": toolkit}, "auth_config": config}}, &made)
	return made.AuthConfig.ID, err
}

// Link is where a user goes to connect an account.
type Link struct {
	RedirectURL string `json:"redirect_url"`
	AccountID   string `json:"connected_account_id"`
}

// Link begins the connection of a user's account, which the user completes at
// the address in the answer.
func (c *Client) Link(ctx context.Context, userID, toolkit, callback string) (Link, error) {
	config, err := c.authConfig(ctx, toolkit, schemeOAuth2)
	if err != nil {
		return Link{}, err
	}
	body := map[string]string{"auth_config_id": config, "user_id": userID}
	if callback != "" {
		body["callback_url"] = callback
	}
	var l Link
	return l, c.call(ctx, ask{method: http.MethodPost, path: "/connected_accounts/link", body: body}, &l)
}

// keyField is what a service calls its API key: docs/wire/providers.md#composio-names.
func keyField(toolkit string) string {
	if slices.Contains([]string{"alpha_vantage", "hunter", "heygen"}, toolkit) {
		return "generic_api_key"
	}
	return "api_key"
}

// Connect makes an account with an API key and returns its id.
func (c *Client) Connect(ctx context.Context, userID, toolkit, key string) (string, error) {
	config, err := c.authConfig(ctx, toolkit, schemeAPIKey)
	if err != nil {
		return "", err
	}
	body := map[string]any{
		"auth_config": map[string]string{"id": config},
		"connection": map[string]any{
			"user_id": userID,
			"state":   map[string]any{"authScheme": schemeAPIKey, "val": map[string]string{"status": Active, keyField(toolkit): key}},
		},
	}
	var made struct {
		ID string `json:"id"`
	}
	return made.ID, c.call(ctx, ask{method: http.MethodPost, path: "/connected_accounts", body: body}, &made)
}

// Disconnect ends an account at the service.
func (c *Client) Disconnect(ctx context.Context, accountID string) error {
	return c.call(ctx, ask{method: http.MethodDelete, path: "/connected_accounts/" + url.PathEscape(accountID)}, nil)
}

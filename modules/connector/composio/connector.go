package composio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/install"
)

// What this package executes: docs/wire/refly.md#kinds-of-toolsets.
const (
	KindOAuth  toolset.Kind = "composio_oauth"
	KindAPIKey toolset.Kind = "composio_apikey"
)

// What installed toolsets, and toolsets in files, of these kinds say of
// themselves.
const (
	authOAuth  = "oauth"
	authAPIKey = "external_apikey"
	typeOAuth  = "external_oauth"
	typeAPIKey = "external_apikey"
)

// provider is what Composio is called in tool_provider_billing and in patterns.
const provider = "composio"

// OAuth is the kind of toolsets that each user connects an account for.
type OAuth struct{ *Connector }

// Traits implements toolset.Source.
func (o OAuth) Traits() toolset.Traits {
	return toolset.Traits{Kind: KindOAuth, Type: typeOAuth, AuthType: authOAuth, Off: !o.deps.Client.Connected(), Accounts: o}
}

// Form implements install.Former.
func (OAuth) Form(string) install.Form {
	return install.Form{Patterns: []install.Pattern{{Type: authOAuth, Provider: provider}}}
}

// Connected implements toolset.Accounts.
func (o OAuth) Connected(ctx context.Context, uid string) ([]string, error) {
	return o.rows.connections(o.deps.DB.Read(ctx), uid)
}

// HowTo implements toolset.Accounts.
func (OAuth) HowTo(key string) string {
	return "Connect the account first: POST /v1/tool/composio/" + key + "/authorize."
}

// ConnectURL implements toolset.Accounts. Where to go is found out when a user asks.
func (OAuth) ConnectURL(string) string { return "" }

// Resolve implements toolset.Source.
func (o OAuth) Resolve(ctx context.Context, a actor.Actor, e toolset.Entry) (toolset.Toolset, error) {
	t, _, err := o.resolve(ctx, e)
	if err != nil {
		return t, err
	}
	t.AccountUser = a.UID
	if t.Account, err = o.rows.connection(o.deps.DB.Read(ctx), a.UID, t.Key); err == nil && t.Account == "" {
		err = errs.Newf(errs.Forbidden, "OAuth connection not authorized for toolset: %s.", t.Key).
			Do("The user connects the account first, on the toolset's page.")
	}
	return t, err
}

// APIKey is the kind of toolsets with one account for all who share a key.
type APIKey struct{ *Connector }

// Traits implements toolset.Source.
func (k APIKey) Traits() toolset.Traits {
	return toolset.Traits{Kind: KindAPIKey, Type: typeAPIKey, AuthType: authAPIKey, Off: !k.deps.Client.Connected()}
}

// Form implements install.Former.
func (APIKey) Form(string) install.Form {
	return install.Form{Patterns: []install.Pattern{{
		Type: toolset.AuthCredentials, CredentialItems: []install.Item{{Key: "apiKey", InputMode: "text", Required: true}},
	}}}
}

// Resolve implements toolset.Source. A key of the user's own is connected as
// the user's.
func (k APIKey) Resolve(ctx context.Context, a actor.Actor, e toolset.Entry) (toolset.Toolset, error) {
	t, listing, err := k.resolve(ctx, e)
	if err != nil {
		return t, err
	}
	t.AccountUser, t.Credential = k.deps.SharedUser, e.Credential(listing)
	if !t.Global {
		t.AccountUser = a.UID
	}
	return t, nil
}

// resolve adds what is known of a toolset before its tools and its account:
// what a call may reach and what it costs. A toolset without a file has the
// usual price.
func (c *Connector) resolve(ctx context.Context, e toolset.Entry) (toolset.Toolset, toolset.Listing, error) {
	t := e.Toolset
	listing, err := e.Listing(ctx)
	if err != nil && errs.CodeOf(err) != errs.ToolsetMissing {
		return t, listing, err
	}
	if t.Egress, err = listing.Egress(); err != nil {
		return t, listing, err
	}
	prices, err := c.PriceReader(ctx)
	if err != nil {
		return t, listing, err
	}
	if t.Prices, err = prices(listing.Prices); err != nil {
		return t, listing, toolset.Broken(t.Key, fmt.Errorf("prices: %w", err))
	}
	return t, listing, nil
}

// PriceReader implements toolset.Pricer: Composio's rates decide what a tier
// costs.
func (c *Connector) PriceReader(ctx context.Context) (func(text string) (price.List, error), error) {
	rates, err := c.deps.Rates.Rates(ctx, provider)
	return func(text string) (price.List, error) { return c.deps.Pricer.ParseProvided(text, rates) }, err
}

// Method implements toolset.Source: it finds a tool at Composio, and the
// account to call it with.
func (c *Connector) Method(ctx context.Context, t toolset.Toolset, name string) (toolset.Method, toolset.Credential, error) {
	if !c.deps.Client.Connected() {
		return toolset.Method{}, toolset.Credential{}, errOff(t.Key)
	}
	m, err := c.tool(ctx, t.Key, name)
	if err != nil {
		return m, toolset.Credential{}, err
	}
	account := t.Account
	if account == "" {
		account, err = c.sharedAccount(ctx, t)
	}
	return m, toolset.Credential{Type: toolset.Account, Name: account, Username: t.AccountUser}, err
}

// errOff is why a toolset does nothing here.
func errOff(key string) error {
	return errs.Newf(errs.Unavailable, "Toolset %s is one of Composio's, and this server is not connected to Composio.", key).
		Do("The operator sets COMPOSIO_API_KEY.")
}

func (c *Connector) tool(ctx context.Context, key, name string) (toolset.Method, error) {
	tools, err := c.deps.Client.Tools(ctx, Toolkit(key))
	if err != nil {
		return toolset.Method{}, err
	}
	i := slices.IndexFunc(tools, func(tool Tool) bool { return tool.Slug == name })
	if i < 0 {
		names := make([]string, 0, len(tools))
		for _, tool := range tools {
			names = append(names, tool.Slug)
		}
		slices.Sort(names)
		return toolset.Method{}, toolset.NoMethod(key, name, upstream.Limit(strings.Join(names, ", "), 2000))
	}
	return tools[i].method()
}

func (t Tool) method() (toolset.Method, error) {
	schema, err := t.Schema()
	if err != nil {
		return toolset.Method{}, fmt.Errorf("schema of %s: %w", t.Slug, err)
	}
	m := toolset.Method{Name: t.Slug, Description: t.Description, Request: schema, Response: t.Output, Revision: t.Version}
	if len(m.Response) == 0 {
		m.Response = json.RawMessage(`{}`)
	}
	return m, nil
}

// Define implements toolset.Source.
func (c *Connector) Define(ctx context.Context, e toolset.Entry) (toolset.Definition, error) {
	key := e.Toolset.Key
	if !c.deps.Client.Connected() {
		return toolset.Definition{}, errOff(key)
	}
	listing, err := e.Listing(ctx)
	if err != nil {
		return toolset.Definition{}, err
	}
	tools, err := c.deps.Client.Tools(ctx, Toolkit(key))
	if f, ok := errors.AsType[*upstream.Failure](err); ok {
		return toolset.Definition{}, errs.Newf(errs.Unavailable, "Toolset %s cannot be described now: %s", key, f.Message).
			Do("Try again later; partial=true returns the others.").With(err)
	}
	if err != nil {
		return toolset.Definition{}, err
	}
	d := toolset.Definition{Key: key, Name: listing.Label, Description: listing.Description, Tools: []toolset.ToolDefinition{}}
	if d.Name == "" {
		d.Name = key
	}
	for _, tool := range tools {
		if !tool.Exported() {
			continue
		}
		definition, err := tool.definition()
		if err != nil {
			return toolset.Definition{}, toolset.Broken(key, err)
		}
		d.Tools = append(d.Tools, definition)
	}
	slices.SortFunc(d.Tools, func(a, b toolset.ToolDefinition) int { return strings.Compare(a.Name, b.Name) })
	return d, nil
}

func (t Tool) definition() (toolset.ToolDefinition, error) {
	m, err := t.method()
	if err != nil {
		return toolset.ToolDefinition{}, err
	}
	d := m.Definition()
	if d.InputSchema, err = toolset.WithFileTitle(m.Request); err != nil {
		return d, fmt.Errorf("schema of %s: %w", m.Name, err)
	}
	d.OutputSchema = t.Result()
	return d, nil
}

// Held counts the connections of all users for a toolset. It is for operators.
func (c *Connector) Held(h database.Handle, key string) (int64, error) { return c.rows.count(h, key) }

// Forget deletes the connections of all users for a toolset; their accounts at
// Composio stay. It is for operators.
func (c *Connector) Forget(tx database.Tx, key string, at time.Time) error {
	return c.rows.deleteAll(tx, key, at)
}

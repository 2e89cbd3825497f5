package toolset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/composio"
)

// Provider lists tools that other services offer.
type Provider interface {
	// Connected reports whether this server has the provider.
	Connected() bool
	Tools(ctx context.Context, toolkit string) ([]composio.Tool, error)
}

// ComposioProvider is the provider in tool_provider_billing.
const ComposioProvider = "composio"

// errNoProvider is why a toolset of the provider does nothing here.
func errNoProvider(key string) error {
	return errs.Newf(errs.Unavailable, "Toolset %s is one of Composio's, and this server is not connected to Composio.", key).
		Do("The operator sets COMPOSIO_API_KEY.")
}

// provided adds what is known of a toolset of the provider before its tools:
// who the caller is there, and what a call costs.
func (s *Service) provided(ctx context.Context, h database.Handle, uid string, t Toolset, row usableRow) (Toolset, error) {
	item, err := s.rows.inventory(h, t.Key)
	if errs.CodeOf(err) == errs.ToolsetMissing {
		item, err = inventoryRow{Key: t.Key}, nil // without prices of its own it costs the usual 3 credits
	}
	if err != nil {
		return t, err
	}
	if t.Egress, err = item.egress(); err != nil {
		return t, err
	}
	rates, err := s.Rates.Rates(ctx, ComposioProvider)
	if err != nil {
		return t, err
	}
	if t.Prices, err = s.Pricer.ParseProvided(deref(item.CreditBilling), rates); err != nil {
		return t, broken(t.Key, fmt.Errorf("prices: %w", err))
	}
	if t.Kind == ComposioOAuth {
		t.ProviderUser = uid
		if t.ConnectedAccountID, err = s.rows.connection(h, uid, t.Key); err == nil && t.ConnectedAccountID == "" {
			err = errs.Newf(errs.Forbidden, "OAuth connection not authorized for toolset: %s.", t.Key).
				Do("The user connects the account first, on the toolset's page.")
		}
		return t, err
	}
	t.ProviderUser, t.credential = s.SharedUser, row.credential(deref(item.APIKey))
	if !row.IsGlobal {
		t.ProviderUser = uid // a key of the user's own is connected as the user's
	}
	return t, nil
}

// providedMethod finds a tool of a toolset at the provider, and the account to
// call it with.
func (s *Service) providedMethod(ctx context.Context, t Toolset, name string) (Method, Credential, error) {
	if !s.Provider.Connected() {
		return Method{}, Credential{}, errNoProvider(t.Key)
	}
	m, err := s.providedTool(ctx, t, name)
	if err != nil {
		return m, Credential{}, err
	}
	account := t.ConnectedAccountID
	if account == "" {
		account, err = s.sharedAccount(ctx, t)
	}
	return m, Credential{Type: Account, Name: account, Username: t.ProviderUser}, err
}

func (s *Service) providedTool(ctx context.Context, t Toolset, name string) (Method, error) {
	tools, err := s.Provider.Tools(ctx, composio.Toolkit(t.Key))
	if err != nil {
		return Method{}, err
	}
	i := slices.IndexFunc(tools, func(tool composio.Tool) bool { return tool.Slug == name })
	if i < 0 {
		names := make([]string, 0, len(tools))
		for _, tool := range tools {
			names = append(names, tool.Slug)
		}
		slices.Sort(names)
		return Method{}, errs.Newf(errs.NotFound, "Method '%s' not found in toolset '%s'. Available methods: %s", name, t.Key, upstream.Limit(strings.Join(names, ", "), 2000))
	}
	return methodOf(tools[i])
}

func methodOf(tool composio.Tool) (Method, error) {
	schema, err := tool.Schema()
	if err != nil {
		return Method{}, fmt.Errorf("schema of %s: %w", tool.Slug, err)
	}
	m := Method{Name: tool.Slug, Description: tool.Description, Request: schema, Response: tool.Output, Revision: tool.Version}
	if len(m.Response) == 0 {
		m.Response = json.RawMessage(`{}`)
	}
	return m, nil
}

// defineProvided describes a toolset of the provider for the generation of code.
func (s *Service) defineProvided(ctx context.Context, h database.Handle, key string) (Definition, error) {
	if !s.Provider.Connected() {
		return Definition{}, errNoProvider(key)
	}
	item, err := s.rows.inventory(h, key)
	if err != nil {
		return Definition{}, err
	}
	tools, err := s.Provider.Tools(ctx, composio.Toolkit(key))
	if f, ok := errors.AsType[*upstream.Failure](err); ok {
		return Definition{}, errs.Newf(errs.Unavailable, "Toolset %s cannot be described now: %s", key, f.Message).Do("Try again later; partial=true returns the others.").With(err)
	}
	if err != nil {
		return Definition{}, err
	}
	d := Definition{Key: key, Name: titleOf(item), Description: english(item.DescriptionDict), Tools: []ToolDefinition{}}
	for _, tool := range tools {
		if !tool.Exported() {
			continue
		}
		m, err := methodOf(tool)
		if err != nil {
			return Definition{}, broken(key, err)
		}
		schema, err := withFileTitle(m.Request)
		if err != nil {
			return Definition{}, broken(key, fmt.Errorf("schema of %s: %w", m.Name, err))
		}
		d.Tools = append(d.Tools, ToolDefinition{
			Name: m.Name, Description: m.Description, InputSchema: schema, OutputSchema: tool.Result(), Callers: m.Callers(),
		})
	}
	slices.SortFunc(d.Tools, func(a, b ToolDefinition) int { return strings.Compare(a.Name, b.Name) })
	return d, nil
}

// titleOf is the name of a toolset for people.
func titleOf(item inventoryRow) string {
	if label := english(item.LabelDict); label != "" {
		return label
	}
	return item.Key
}

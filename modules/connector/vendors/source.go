package vendors

import (
	"context"
	"maps"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/install"
)

// Kind is what this package executes: docs/wire/refly.md#kinds-of-toolsets.
const Kind toolset.Kind = "legacy_sdk"

// Traits implements toolset.Source.
func (c *Connector) Traits() toolset.Traits {
	return toolset.Traits{Kind: Kind, Type: toolset.TypeRegular, Keys: slices.Sorted(maps.Keys(c.definitions))}
}

// Resolve implements toolset.Source: the tools and what they cost come from
// this package, address and credential from the toolset's file or its user.
func (c *Connector) Resolve(ctx context.Context, _ actor.Actor, e toolset.Entry) (toolset.Toolset, error) {
	t, d := e.Toolset, c.definitions[e.Toolset.Key]
	t.Methods, t.Domain = d.Methods, d.Domain
	listing, err := e.Listing(ctx)
	if err != nil && errs.CodeOf(err) != errs.ToolsetMissing {
		return t, err
	}
	if listing.Domain != "" {
		t.Domain = listing.Domain
	}
	if t.Egress, err = listing.Egress(); err != nil {
		return t, err
	}
	if t.Config, err = e.Config(); err != nil {
		return t, err
	}
	t.Credential = e.Credential(listing)
	if !t.Global && len(t.Config) > 0 {
		// The operator opened these networks for the operator's addresses, not
		// for those that a user names.
		t.Egress = nil
	}
	return t, nil
}

// Method implements toolset.Source.
func (c *Connector) Method(_ context.Context, t toolset.Toolset, name string) (toolset.Method, toolset.Credential, error) {
	return t.Find(name)
}

// List implements install.Lister.
func (c *Connector) List(_ context.Context, e toolset.Entry) ([]toolset.Method, error) {
	return c.definitions[e.Toolset.Key].Methods, nil
}

// Form implements install.Former.
func (c *Connector) Form(key string) install.Form {
	d := c.definitions[key]
	return install.Form{Patterns: []install.Pattern{{Type: toolset.AuthCredentials, CredentialItems: d.CredentialItems}}, Items: d.ConfigItems}
}

// Define implements toolset.Source. The tools have no file_name_title: those
// that make a file have a parameter of their own for its name.
func (c *Connector) Define(_ context.Context, e toolset.Entry) (toolset.Definition, error) {
	from := c.definitions[e.Toolset.Key]
	d := toolset.Definition{Key: from.Key, Name: from.Name, Description: from.Description, Tools: []toolset.ToolDefinition{}}
	for _, m := range from.Methods {
		d.Tools = append(d.Tools, m.Definition())
	}
	return d, nil
}

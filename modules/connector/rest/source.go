package rest

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/schema/shared"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/toolset"
)

// Kind is what this package executes: docs/wire/refly.md#kinds-of-toolsets.
const Kind toolset.Kind = "config_based"

// Traits implements toolset.Source: every regular toolset that no other kind
// names is of this kind.
func (c *Connector) Traits() toolset.Traits {
	return toolset.Traits{Kind: Kind, Type: toolset.TypeRegular}
}

// parsed is what a toolset's file and its tools mean.
type parsed struct {
	listing toolset.Listing
	methods []toolset.Method
	prices  price.List
	egress  []netip.Prefix
}

// cache keeps what was read of toolsets. An entry is used as long as nothing of
// its toolset has changed.
type cache struct {
	mu      sync.Mutex
	entries map[string]parsed // by key
}

func (c *cache) get(key string, updated time.Time) (parsed, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.entries[key]
	return p, ok && p.listing.Updated.Equal(updated)
}

func (c *cache) put(key string, p parsed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[key] = p
}

// Resolve implements toolset.Source.
func (c *Connector) Resolve(ctx context.Context, _ actor.Actor, e toolset.Entry) (toolset.Toolset, error) {
	t := e.Toolset
	if e.Updated.IsZero() {
		return t, toolset.Missing(t.Key)
	}
	p, ok := c.cache.get(t.Key, e.Updated)
	if !ok {
		var err error
		if p, err = c.parse(ctx, e); err != nil {
			return t, err
		}
	}
	t.Domain, t.Egress, t.Prices, t.Methods = p.listing.Domain, p.egress, p.prices, p.methods
	t.Credential = e.Credential(p.listing)
	return t, nil
}

// parse reads a toolset once for each of its states: whoever changes a tool
// changes the moment of its listing in the same transaction.
func (c *Connector) parse(ctx context.Context, e toolset.Entry) (parsed, error) {
	key := e.Toolset.Key
	listing, err := e.Listing(ctx)
	if err != nil {
		return parsed{}, err
	}
	if p, ok := c.cache.get(key, listing.Updated); ok {
		return p, nil
	}
	p := parsed{listing: listing}
	if p.methods, err = e.Methods(ctx); err != nil {
		return p, err
	}
	if p.egress, err = listing.Egress(); err != nil {
		return p, err
	}
	for i, m := range p.methods {
		if len(m.Rules) > 0 { // its price looks into the schemas
			if p.methods[i], err = p.methods[i].Whole(); err != nil {
				return p, toolset.Broken(key, err)
			}
		}
	}
	if p.prices, err = c.deps.Pricer.ParsePrices(listing.Prices, toolset.Priced(p.methods)); err != nil {
		return p, toolset.Broken(key, fmt.Errorf("prices: %w", err))
	}
	c.cache.put(key, p)
	return p, nil
}

// Method implements toolset.Source.
func (c *Connector) Method(_ context.Context, t toolset.Toolset, name string) (toolset.Method, toolset.Credential, error) {
	m, credential, err := t.Find(name)
	if err != nil {
		return m, credential, err
	}
	if m, err = m.Callable(); err != nil {
		return m, credential, toolset.Broken(t.Key, err)
	}
	m.Verbatim = m.Adapter.Polling == nil && m.Adapter.GraphQL == nil && !bytes.Contains(m.Response, []byte(omitFields))
	return m, credential, nil
}

// List implements install.Lister.
func (c *Connector) List(ctx context.Context, e toolset.Entry) ([]toolset.Method, error) {
	p, err := c.parse(ctx, e)
	return p.methods, err
}

// Define implements toolset.Source.
func (c *Connector) Define(ctx context.Context, e toolset.Entry) (toolset.Definition, error) {
	p, err := c.parse(ctx, e)
	if err != nil {
		return toolset.Definition{}, err
	}
	d := toolset.Definition{Key: e.Toolset.Key, Name: p.listing.Name, Description: p.listing.Description, Tools: []toolset.ToolDefinition{}}
	var writer *shared.Writer
	for _, m := range p.methods {
		// The parameter comes first: the schema is shorter then.
		if m.Request, err = toolset.WithFileTitle(m.Request); err != nil {
			return toolset.Definition{}, toolset.Broken(e.Toolset.Key, fmt.Errorf("schema of %s: %w", m.Name, err))
		}
		if m.Shared != nil {
			if writer == nil {
				writer = shared.NewWriter(m.Shared.Schemas)
			}
			if m, err = m.Expanded(writer.Write); err != nil {
				return toolset.Definition{}, toolset.Broken(e.Toolset.Key, err)
			}
		}
		d.Tools = append(d.Tools, m.Definition())
	}
	return d, nil
}

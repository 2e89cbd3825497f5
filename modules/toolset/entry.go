package toolset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/schema/shared"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Entry is a toolset as it is stored, for the Source of its kind.
type Entry struct {
	// Toolset is what is known of it whatever its kind.
	Toolset Toolset
	// Updated is when its file, or a tool of that, changed last; zero where no
	// file is in force.
	Updated time.Time

	service          *Service
	authData, config *string
	listing          *Listing // where it was read already
	identified       bool     // Updated says which state of its file counts
}

// Listing is what a toolset's file says, besides its tools.
type Listing struct {
	Key, Type, Name string
	// Label and Description are for people: in English if the file has that.
	Label, Description string
	// Domain is the base of relative endpoints; empty for none.
	Domain string
	// Prices is what stands under billing, as JSON; empty for nothing.
	Prices  string
	Updated time.Time

	egress, credential *string
}

func listingOf(r rows.Inventory) Listing {
	return Listing{
		Key: r.Key, Type: r.Type, Name: r.Name, Label: english(r.LabelDict), Description: english(r.DescriptionDict), Domain: database.Text(r.Domain),
		Prices: database.Text(r.CreditBilling), Updated: r.UpdatedAt, egress: r.Egress, credential: r.APIKey,
	}
}

// Egress lists what the toolset may reach beyond the public internet.
func (s Listing) Egress() ([]netip.Prefix, error) {
	if s.egress == nil {
		return nil, nil
	}
	var out []netip.Prefix
	if err := json.Unmarshal([]byte(*s.egress), &out); err != nil {
		return nil, Broken(s.Key, fmt.Errorf("egress: %w", err))
	}
	return out, nil
}

// Listing reads what the toolset's file says. The error is that of Missing where
// none is in force.
func (e Entry) Listing(ctx context.Context) (Listing, error) {
	if e.listing != nil {
		return *e.listing, nil
	}
	switch {
	case !e.identified:
		return e.readListing(ctx)
	case e.Updated.IsZero():
		return Listing{Key: e.Toolset.Key}, Missing(e.Toolset.Key)
	}
	return e.service.facts.listings.Get(ctx, state{e.Toolset.Key, e.Updated}, e.readListing)
}

func (e Entry) readListing(ctx context.Context) (Listing, error) {
	row, err := e.service.rows.Inventory(e.service.db.Read(ctx), e.Toolset.Key)
	if err != nil {
		return Listing{Key: e.Toolset.Key}, err
	}
	return listingOf(row), nil
}

// Methods reads the tools that the toolset's file lists, by name, with the
// formulas of their prices. Their schemas are as they are stored: see
// Method.Shared.
func (e Entry) Methods(ctx context.Context) ([]Method, error) {
	h := e.service.db.Read(ctx)
	stored, err := e.service.rows.Methods(h, e.Toolset.Key)
	if err != nil {
		return nil, err
	}
	formulas, err := e.service.rows.Formulas(h, e.Toolset.Key)
	if err != nil {
		return nil, err
	}
	schemas, err := e.schemas(h)
	if err != nil {
		return nil, err
	}
	methods := make([]Method, len(stored))
	for i, r := range stored {
		if methods[i], err = methodOf(r); err != nil {
			return nil, err
		}
		methods[i].Shared = schemas
		for _, f := range formulas {
			if f.Enabled && f.MethodName == r.Name {
				methods[i].Rules = json.RawMessage(f.BillingRules)
				if f.TokenPricing != nil {
					methods[i].TokenPricing = json.RawMessage(*f.TokenPricing)
				}
			}
		}
	}
	return methods, nil
}

// schemas are those that the tools share; nil where there are none.
func (e Entry) schemas(h database.Handle) (*shared.Set, error) {
	stored, err := e.service.rows.Schemas(h, e.Toolset.Key)
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	out := make(shared.Schemas, len(stored))
	for _, r := range stored {
		out[r.Name] = json.RawMessage(r.Definition)
	}
	return &shared.Set{Schemas: out}, nil
}

func methodOf(r rows.Method) (Method, error) {
	m := Method{
		Name: r.Name, Version: r.VersionID, Description: r.Description, Endpoint: r.Endpoint, HTTPMethod: r.HTTPMethod,
		Request: json.RawMessage(r.RequestSchema), Response: json.RawMessage(r.ResponseSchema),
		AllowedCallers: r.AllowedCallers, Approval: r.Approval, Effect: r.Effect,
	}
	if r.AdapterConfig != nil {
		if err := json.Unmarshal([]byte(*r.AdapterConfig), &m.Adapter); err != nil {
			return m, Broken(r.InventoryKey, fmt.Errorf("adapter_config of %s: %w", r.Name, err))
		}
	}
	return m, nil
}

// Credential is what the toolset's calls carry. The operator's is for what
// everybody shares and pays for: a user's own toolset, which is not billed, has
// the user's or none.
func (e Entry) Credential(s Listing) Sealed {
	text := s.credential
	if !e.Toolset.Global || e.authData != nil {
		text = e.authData
	}
	return Sealed{key: e.Toolset.Key, text: database.Text(text), box: e.service.box}
}

// Config is what the toolset is configured with, by the keys of its items. A
// value that is no text is JSON.
func (e Entry) Config() (map[string]string, error) {
	if database.Text(e.config) == "" {
		return nil, nil //nolint:nilnil // nothing is configured
	}
	var values map[string]any
	if err := json.Unmarshal([]byte(*e.config), &values); err != nil {
		return nil, Broken(e.Toolset.Key, errors.New("config: is no JSON object"))
	}
	out := map[string]string{}
	for name, v := range values {
		if text, ok := v.(string); ok {
			out[name] = text
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, Broken(e.Toolset.Key, fmt.Errorf("config: %w", err))
		}
		out[name] = string(text)
	}
	return out, nil
}

// Sealed is a credential as it is stored. The zero value is none.
type Sealed struct {
	key, text string
	box       *secretbox.Box
}

// None reports whether there is no credential.
func (s Sealed) None() bool { return s.text == "" }

// Open returns the credential. One that cannot be opened is an error, never
// none.
func (s Sealed) Open() (Credential, error) {
	if s.None() {
		return Credential{}, nil
	}
	opened, err := s.box.Open(s.text)
	if err != nil {
		return Credential{}, Broken(s.key, fmt.Errorf("credential, sealed with another ENCRYPTION_KEY perhaps: %w", err))
	}
	c, err := ParseCredential(opened)
	if err != nil {
		return Credential{}, Broken(s.key, fmt.Errorf("credential: %w", err))
	}
	return c, nil
}

// Fingerprint tells stored credentials apart. A credential that is stored again
// has another one.
func (s Sealed) Fingerprint() string {
	sum := sha256.Sum256([]byte(s.text))
	return hex.EncodeToString(sum[:8])
}

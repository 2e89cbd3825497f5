package toolset

import (
	"context"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/billing/price"
)

// Source is one kind of toolset: it says what stored toolsets of the kind mean.
// The package that implements it executes their tools, too. A Source may also
// be a Pricer, and a Former and a Lister of package install.
type Source interface {
	Traits() Traits
	// Resolve says what a stored toolset means to the actor. It begins with
	// e.Toolset and asks no other service. Every call comes through here.
	Resolve(ctx context.Context, a actor.Actor, e Entry) (Toolset, error)
	// Method finds a tool of a toolset that Resolve returned, and what its
	// upstream wants to see: the user's own credential if the toolset is the
	// user's, the operator's otherwise. NoMethod is the error for one that is
	// not there.
	Method(ctx context.Context, t Toolset, name string) (Method, Credential, error)
	// Define describes all tools, for prompts and for the generation of code.
	Define(ctx context.Context, e Entry) (Definition, error)
}

// Pricer is a Source that reads itself what toolset files have under billing,
// as JSON. An empty text is a file without it.
type Pricer interface {
	// PriceReader returns the function that reads it, with today's rates.
	PriceReader(ctx context.Context) (func(text string) (price.List, error), error)
}

// Accounts says which toolsets a user has connected an account for.
type Accounts interface {
	// Connected lists their keys.
	Connected(ctx context.Context, uid string) ([]string, error)
	// HowTo tells a user how to connect one for a toolset.
	HowTo(key string) string
	// ConnectURL is the page on which a user does so; empty where there is none.
	ConnectURL(key string) string
}

// Traits are what tells one kind of toolset from the others.
type Traits struct {
	Kind Kind
	// Type is what the inventory and toolset files call the kind: a word of its
	// own, or TypeRegular.
	Type string
	// AuthType marks the installed toolsets of a kind that has a Type of its own.
	AuthType string
	// Keys are the regular toolsets of this kind. The kind without Keys has all
	// those that no other kind names.
	Keys []string
	// Off says that this server is not connected to what executes the kind: its
	// toolsets are not offered.
	Off bool
	// Accounts is nil unless every user connects an account of their own first.
	Accounts Accounts
}

// Registered is a Source with its Traits.
type Registered struct {
	Source
	Traits
}

// Kinds is the registry of all kinds: no other code decides by the kind of a
// toolset.
type Kinds []Registered

// NewKinds makes the registry. Where two kinds claim the same, the first has it.
func NewKinds(sources ...Source) Kinds {
	k := make(Kinds, len(sources))
	for i, s := range sources {
		k[i] = Registered{s, s.Traits()}
	}
	return k
}

func (k Kinds) first(match func(t Traits) bool) (Registered, bool) {
	i := slices.IndexFunc(k, func(one Registered) bool { return match(one.Traits) })
	if i < 0 {
		return Registered{}, false
	}
	return k[i], true
}

// Installed finds the kind of an installed toolset:
// docs/wire/refly.md#kinds-of-toolsets.
func (k Kinds) Installed(authType, key string) (Registered, bool) {
	switch authType {
	case "", AuthConfigBased, AuthCredentials:
		return k.Offered(TypeRegular, key)
	}
	return k.first(func(t Traits) bool { return t.AuthType == authType })
}

// Offered finds the kind of a toolset of the inventory.
func (k Kinds) Offered(kind, key string) (Registered, bool) {
	if kind != TypeRegular {
		return k.first(func(t Traits) bool { return t.Type == kind })
	}
	if one, ok := k.first(func(t Traits) bool { return t.Type == TypeRegular && slices.Contains(t.Keys, key) }); ok {
		return one, true
	}
	return k.first(func(t Traits) bool { return t.Type == TypeRegular && len(t.Keys) == 0 })
}

// Types are the types that a toolset file may name, TypeRegular first.
func (k Kinds) Types() []string {
	types := []string{TypeRegular}
	for _, one := range k {
		if one.Type != TypeRegular {
			types = append(types, one.Type)
		}
	}
	return types
}

// AuthTypes are the values of toolsets.auth_type, those of regular toolsets
// first.
func (k Kinds) AuthTypes() []string {
	types := []string{AuthConfigBased, AuthCredentials}
	for _, one := range k {
		if one.Type != TypeRegular {
			types = append(types, one.AuthType)
		}
	}
	return types
}

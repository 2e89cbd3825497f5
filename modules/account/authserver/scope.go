package authserver

import (
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
)

// scopes are those that there are, each within those before it.
func scopes() []string { return []string{string(actor.MCP), string(actor.MCPRead)} }

// allScopes are the scopes as OAuth lists them.
func allScopes() string { return strings.Join(scopes(), " ") }

var (
	errScope = errs.New(errs.Invalid, "The app asks for nothing that there is.").Do("Its scopes are to be " + strings.Join(scopes(), " or ") + ", or none.").With(oauthCode("invalid_scope"))
	errWider = protocol("invalid_scope", "The scope is wider than what the app was allowed.")
)

// scopeOf is the widest scope of those that an app names. One that names none gets
// what it is without scopes; names that there are not are left out beside others.
func scopeOf(named, without string) (string, error) {
	if strings.TrimSpace(named) == "" {
		return without, nil
	}
	list := strings.Fields(named)
	for _, s := range scopes() {
		if slices.Contains(list, s) {
			return s, nil
		}
	}
	return "", errScope
}

// narrowed is the scope of a token that an app refreshes: that of its grant, or a
// narrower one that it names.
func narrowed(granted, named string) (string, error) {
	s, err := scopeOf(named, granted)
	if err == nil && slices.Index(scopes(), s) < slices.Index(scopes(), granted) {
		err = errWider
	}
	return s, err
}

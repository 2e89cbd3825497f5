package oauth

import "net/netip"

// Kind is what a service has users authorize this server for: MCP servers, or the
// APIs of toolsets.
type Kind struct {
	// Noun is what a person calls one of them, as in "toolset", and One the same with
	// its article.
	Noun, One string
	// Path is where the routes begin that all of them share, Routes where those of one
	// begin, before its name.
	Path, Routes string
	// Tag is the group of these routes in the API document.
	Tag string
	// Fixed says that targets name their Endpoints.
	Fixed bool
	// Action is the first word of actions in the audit log.
	Action string
	// Changed is the kind of the topics that say that tokens have changed.
	Changed string
	// Targets finds those that a user may use.
	Targets Targets
	// Grants and Flows are the tables, and Column the one in both that holds Target.ID.
	Grants, Flows, Column string
}

// Target is what a user authorizes this server for.
type Target struct {
	// ID is what rows know it by: the number of an MCP server, the key of a toolset.
	ID any
	// Name is what users know it by.
	Name string
	// OAuth says that it takes tokens of users.
	OAuth bool
	// URL is what tokens are sent to, with Headers.
	URL     string
	Headers map[string]string
	// Egress lists what its addresses may be beyond the public internet.
	Egress []netip.Prefix
	// Client is the one that was registered by hand; the zero value for none.
	Client Registration
	// Scopes are what is asked for; without any, what the target names.
	Scopes []string
	// Endpoints are those of its authorization server; the zero value where the target
	// says itself which one that is.
	Endpoints Endpoints
}

// Registration is a client that was registered by hand.
type Registration struct{ ID, Secret string }

// Endpoints are the addresses of an authorization server.
type Endpoints struct{ Authorization, Token string }

func (t Target) fixed() bool { return t.Endpoints != Endpoints{} }

// Needed says that a user must authorize this server before a target can be used.
type Needed struct {
	// URL is this server's own address, where the user begins.
	URL string
}

// Error implements error.
func (e Needed) Error() string { return "authorization is needed: " + e.URL }

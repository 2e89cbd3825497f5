// Package server says which MCP servers there are, to whom they belong, how they
// are reached and what they offered last.
package server

import (
	"encoding/json"
	"net/netip"
	"time"

	"github.com/portico-run/portico/internal/money"
)

// Transport is how a server is reached.
type Transport string

// The transports: a process of this machine, which operators alone may name, or
// the streamable HTTP transport of the protocol.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http"
)

// Server is an MCP server as a user may use it, with everything a connection
// needs. It holds opened credentials: nobody logs or returns it.
type Server struct {
	// ID is the server's own; it stays when the settings change.
	ID int64
	// Name is its key, as in toolsets. UID is whose it is; empty for everybody's.
	Name, UID string
	// For is the user whose credentials are in it; empty where all users have the
	// same.
	For       string
	Transport Transport
	// URL and Headers belong to HTTP; Command, Args, Env and Sandbox to Stdio.
	URL     string
	Headers map[string]string
	Command string
	Args    []string
	// Env is the whole environment of the process, besides PATH and HOME.
	Env map[string]string
	// Sandbox runs the process inside the isolation of the sandbox.
	Sandbox bool
	// OAuth says that every user authorizes Portico at the server's authorization
	// server.
	OAuth bool
	// Client is the OAuth client that was registered by hand; the zero value for
	// none. Scopes are what is asked for; without any, what the server names.
	Client Client
	Scopes []string
	// Egress lists what it may reach beyond the public internet: what its settings
	// name, and for servers of users what the operator lets all of them reach.
	Egress []netip.Prefix
	// Version changes with everything above and with the user's credentials: a
	// connection belongs to a user, a server and a version.
	Version string
	// Refresh is after how long its tools are listed again.
	Refresh time.Duration
	// Price is what a call costs, in credits; Prices those of single tools.
	Price  money.Amount
	Prices map[string]money.Amount
	// Pins are the hashes that tools must have, by the names that the server
	// uses; a tool with another one is refused. Nil pins nothing.
	Pins map[string]string
}

// Tool is a tool as its server describes it.
type Tool struct {
	// Name is the server's; Portico's is made of both names.
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema,omitempty"`
	Hints       Hints           `json:"annotations"`
	// Hash tells versions of the tool apart: name, description, schemas, hints.
	Hash string `json:"hash" example:"6f1c5f0a"`
}

// Hints are what a server claims of a tool. Nothing obliges it to tell the
// truth, so that they may only tighten what is allowed; nil is no claim.
type Hints struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// List is what a server offered when it was asked.
type List struct {
	Tools []Tool `json:"tools"`
	// Hash tells lists apart.
	Hash string `json:"hash"`
	// Protocol is the revision that was agreed upon.
	Protocol string    `json:"protocol,omitempty"`
	Listed   time.Time `json:"listed"`
	// Left says why tools are left out, by name: schemas that cannot be read,
	// names that nobody can call, more tools than a server may have. It has 100, and
	// how many more there are.
	Left map[string]string `json:"left,omitempty"`
}

// State is how a server does at the moment, to one user.
type State string

// The states. A degraded server answers, or answered, but not as it should: its
// last good list stays.
const (
	Idle       State = "idle" // nobody has asked it yet
	Connecting State = "connecting"
	Ready      State = "ready"
	AuthNeeded State = "auth_needed"
	Degraded   State = "degraded"
)

// Health is a State with its reason.
type Health struct {
	State State `json:"state"`
	// Reason is for the user; empty where the server is ready.
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	// ConnectURL is where a person authorizes Portico; of AuthNeeded only.
	ConnectURL string `json:"connectUrl,omitempty"`
	// Stderr is the end of what a process wrote there; operators only.
	Stderr string `json:"stderr,omitempty"`
}

package store

import (
	"encoding/json"
	"net/netip"

	"github.com/portico-run/portico/internal/schema/shared"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/install"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// Spec is a toolset as an operator's file says it is, checked: what Store
// writes.
type Spec struct {
	Key, Name string
	// Domain is the base of relative endpoints; empty for none.
	Domain string
	// Type is one of the inventory's, AuthType how its users authenticate.
	Type, AuthType       string
	Labels, Descriptions map[string]string // by language
	Enabled              bool
	// Global says that the toolset is everybody's. Otherwise it is nobody's until
	// a user installs it.
	Global bool
	// Credential is the operator's; nil for none. It is sealed when it is stored.
	Credential *toolset.Credential
	// Egress lists what the toolset may reach beyond the public internet.
	Egress []netip.Prefix
	Prices json.RawMessage // empty for what is usual
	// Approval is that of toolset.Toolset.
	Approval string
	// Patterns and Items are what users give to install the toolset, Config is
	// what the toolset of everybody is configured with.
	Patterns []install.Pattern
	Items    []install.Item
	Config   map[string]any
	Methods  []toolset.Method
	// Marks are those of Methods that programs call as plain functions.
	Marks []mark.Mark
	// Schemas are those that the schemas of Methods refer to; nil for none.
	Schemas shared.Schemas
}

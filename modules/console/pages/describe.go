package pages

import (
	"bytes"
	"encoding/json"
	"net/url"

	"github.com/portico-run/portico/modules/console/form"
)

// toolset is all that the API says of one toolset.
type toolset struct {
	Key, Name, Description, Type, Domain string
	State, Problem                       string
	Toolset                              *instance
	ConnectURL                           string // where a person connects the account that is needed
	Health                               *struct{ Reason, ConnectURL string }
	AuthPatterns                         []pattern
	ConfigItems                          []form.Item
	Tools                                []tool
}

// instance is the toolset that the person has.
type instance struct {
	ToolsetID, Name   string
	IsGlobal, Enabled bool
	Config            json.RawMessage
}

// pattern is one way to authenticate.
type pattern struct {
	Type, Provider  string
	CredentialItems []form.Item
}

type tool struct {
	Name, Description         string
	Line, Function            string // as programs call it
	Callers                   []string
	ReadOnly, Idempotent      *bool
	InputSchema, OutputSchema json.RawMessage
	Price                     *struct {
		Credits *json.Number
		Varies  bool
	}
}

// States of toolsets, as the API says them.
const (
	stateReady     = "ready"
	stateAvailable = "available"
	stateAccount   = "needs_account"
	stateKey       = "needs_key"
	stateOff       = "off"
	stateBroken    = "broken"
)

// Installed reports whether the person has the toolset by themselves.
func (t toolset) Installed() bool {
	return t.Toolset != nil && !t.Toolset.IsGlobal && t.Type != typeMCP
}

// Global reports whether the toolset is everybody's.
func (t toolset) Global() bool { return t.Toolset != nil && t.Toolset.IsGlobal }

// Reads reports whether a tool is said to change nothing.
func (t tool) Reads() bool { return t.ReadOnly != nil && *t.ReadOnly }

// Repeats reports whether calling it twice is said to be calling it once.
func (t tool) Repeats() bool { return t.Idempotent != nil && *t.Idempotent }

// Cost is the price of a call in words; empty where it is not billed.
func (t tool) Cost() string {
	switch {
	case t.Price == nil:
		return ""
	case t.Price.Credits == nil || t.Price.Varies:
		return "price varies"
	case *t.Price.Credits == "1":
		return "1 credit"
	}
	return t.Price.Credits.String() + " credits"
}

// Schema is what the tool takes, as it is shown.
func (t tool) Schema() string { return indent(t.InputSchema) }

// Gives is the schema of what it answers with.
func (t tool) Gives() string { return indent(t.OutputSchema) }

func describe(v *Visit, key string) (toolset, error) {
	var t toolset
	err := v.get("/v1/tool/toolset/"+url.PathEscape(key), nil, &t)
	return t, err
}

// indent shows JSON with its numbers as they were written; nothing for null.
func indent(text json.RawMessage) string {
	if len(text) == 0 || string(text) == "null" {
		return ""
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return string(text)
	}
	return b.String()
}

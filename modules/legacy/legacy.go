// Package legacy describes the toolsets whose client is code of this server:
// their tools, and what a user gives to install them.
package legacy

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

//go:embed definitions/*.json
var definitions embed.FS

// Toolset is one of them.
type Toolset struct {
	Key         string `json:"key"`
	Name        string `json:"name"`
	Description string `json:"description"`
	// Domain is where the vendor's API is.
	Domain string `json:"domain"`
	// CredentialItems and ConfigItems are what a user gives:
	// docs/wire/refly.md#installing-a-toolset.
	CredentialItems json.RawMessage `json:"credentialItems"`
	ConfigItems     json.RawMessage `json:"configItems"`
	Tools           []Tool          `json:"tools"`
}

// Tool is one tool of a Toolset.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema"`
}

// Load reads all descriptions, by key.
func Load() ([]Toolset, error) {
	files, err := definitions.ReadDir("definitions")
	if err != nil {
		return nil, err
	}
	var all []Toolset
	for _, f := range files {
		text, err := definitions.ReadFile("definitions/" + f.Name())
		if err != nil {
			return nil, err
		}
		var t Toolset
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Toolset) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

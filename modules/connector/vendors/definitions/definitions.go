// Package definitions describes the toolsets of the vendors: their tools, and
// what a user gives to install them.
package definitions

import (
	"embed"
	"encoding/json"
	"fmt"

	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/install"
)

//go:embed *.json
var texts embed.FS

// Toolset is the toolset of one vendor.
type Toolset struct {
	Key         string `json:"key"`
	Name        string `json:"name"`
	Description string `json:"description"`
	// Domain is where the vendor's API is.
	Domain string `json:"domain"`
	// CredentialItems and ConfigItems are what a user gives:
	// docs/wire/refly.md#installing-a-toolset.
	CredentialItems []install.Item `json:"credentialItems"`
	ConfigItems     []install.Item `json:"configItems"`
	Tools           []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Input       json.RawMessage `json:"inputSchema"`
		Output      json.RawMessage `json:"outputSchema"`
	} `json:"tools"`

	// Methods are the Tools.
	Methods []toolset.Method `json:"-"`
}

// Load reads all definitions, by key.
func Load() (map[string]Toolset, error) {
	files, err := texts.ReadDir(".")
	if err != nil {
		return nil, err
	}
	all := map[string]Toolset{}
	for _, f := range files {
		text, err := texts.ReadFile(f.Name())
		if err != nil {
			return nil, err
		}
		var d Toolset
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		for _, t := range d.Tools {
			d.Methods = append(d.Methods, toolset.Method{Name: t.Name, Description: t.Description, Request: t.Input, Response: t.Output})
		}
		all[d.Key] = d
	}
	return all, nil
}

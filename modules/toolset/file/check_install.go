package file

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/install"
)

// installation reads what a user gives to install a toolset, and what the
// toolset of everybody is configured with.
func (c *checker) installation(s spec, i *item) {
	if c.read(s.AuthPatterns, "authPatterns", &i.Patterns) {
		for _, p := range i.Patterns {
			if !slices.Contains([]string{toolset.AuthCredentials, toolset.AuthOAuth, toolset.AuthConfigBased}, p.Type) {
				c.problem(s.AuthPatterns.node.Line, "authPatterns: type %q must be credentials, oauth or config_based", p.Type)
			}
			c.checkItems(s.AuthPatterns, p.CredentialItems)
		}
	}
	if c.read(s.ConfigItems, "configItems", &i.Items) {
		c.checkItems(s.ConfigItems, i.Items)
	}
	if c.read(s.Config, "config", &i.Config) {
		for name, v := range i.Config {
			if text, ok := v.(string); ok {
				i.Config[name] = c.expand(s.Config.node.Line, text)
			}
		}
	}
}

// read decodes a part of a file, and reports words that mean nothing in it.
func (c *checker) read(t tree, name string, into any) bool {
	if t.node == nil {
		return false
	}
	raw, err := toJSON(t.node)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		err = d.Decode(into)
	}
	if err != nil {
		c.problem(t.node.Line, "%s: %v", name, err)
	}
	return err == nil
}

func (c *checker) checkItems(t tree, items []install.Item) {
	modes := []string{"text", "textarea", "number", "select", "multiSelect", "radio", "switch"}
	for _, i := range items {
		switch {
		case i.Key == "":
			c.problem(t.node.Line, "an item has no key")
		case !slices.Contains(modes, i.InputMode):
			c.problem(t.node.Line, "item %s: inputMode %q is not one of text, textarea, number, select, multiSelect, radio, switch", i.Key, i.InputMode)
		case slices.Contains([]string{"select", "multiSelect", "radio"}, i.InputMode) && len(i.Options) == 0:
			c.problem(t.node.Line, "item %s has no options", i.Key)
		}
	}
}

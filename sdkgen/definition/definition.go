// Package definition is the input of the SDK generator: the toolsets and tools
// the server exports, how they are fetched from its API, and the files they
// are kept in between the generator's steps.
package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxKeyLen bounds a toolset key, in bytes: it becomes a file name.
const maxKeyLen = 128

// Toolset is one exported toolset: docs/wire/refly.md#definitions.
type Toolset struct {
	// Key identifies the toolset; it is what a call sends as toolsetKey.
	Key string `json:"key"`
	// Name is the title shown to people.
	Name        string `json:"name"`
	Description string `json:"description"`
	Tools       []Tool `json:"tools"`
}

// Tool is one callable of a toolset.
type Tool struct {
	// Name is what a call sends as toolName; it need not be an identifier.
	Name        string `json:"name"`
	Description string `json:"description"`
	// InputSchema is the JSON Schema of the arguments. Empty means no
	// parameters.
	InputSchema json.RawMessage `json:"inputSchema"`
	// OutputSchema is the JSON Schema of the result. Empty means unknown.
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

// Validate reports every reason why an SDK cannot be made of the toolset: a
// key that cannot be a file name, a tool without a name, or two tools with
// the same one.
func (t Toolset) Validate() error {
	problems := []error{ValidKey(t.Key)}
	seen := make(map[string]bool, len(t.Tools))
	for i, tool := range t.Tools {
		switch {
		case tool.Name == "":
			problems = append(problems, fmt.Errorf("toolset %q: tool %d has no name", t.Key, i+1))
		case seen[tool.Name]:
			problems = append(problems, fmt.Errorf("toolset %q: tool %q is listed twice", t.Key, tool.Name))
		}
		seen[tool.Name] = true
	}
	return errors.Join(problems...)
}

// ValidKey returns an error that says why key cannot name a toolset's files,
// or nil. Keys come from a server and end up in paths and object names, so
// anything that could leave its folder is refused.
func ValidKey(key string) error {
	switch {
	case key == "":
		return errors.New("toolset key is empty")
	case len(key) > maxKeyLen:
		return fmt.Errorf("toolset key %.20q… is longer than %d bytes", key, maxKeyLen)
	case !utf8.ValidString(key):
		return fmt.Errorf("toolset key %q is not valid UTF-8", key)
	case strings.HasPrefix(key, "."), strings.HasPrefix(key, "-"):
		return fmt.Errorf("toolset key %q must not start with %q", key, key[:1])
	case strings.ContainsAny(key, `/\:*?"<>|`), strings.ContainsFunc(key, unprintable):
		return fmt.Errorf("toolset key %q holds a character that cannot be part of a file name", key)
	}
	return nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

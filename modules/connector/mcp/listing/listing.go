// Package listing reads what an MCP server offers, and says what is wrong with it.
package listing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/mcp/wire"
)

// Bounds of lists.
const (
	maxTools       = 2000
	maxPages       = 200
	maxSchema      = 256 << 10 // bytes of one tool's schemas and words
	maxSchemas     = 16 << 20  // bytes of all tools
	maxToolName    = 128
	maxDescription = 32 << 10
	maxLeft        = 100 // tools whose reason is told why they are left out
)

// Change is what became of a server's tools, by the names that it uses.
type Change struct{ Added, Removed, Changed []string }

// None reports whether nothing changed.
func (c Change) None() bool { return len(c.Added)+len(c.Removed)+len(c.Changed) == 0 }

// Fetch asks for all pages of a list. What nobody can call is left out.
func Fetch(ctx context.Context, s *mcp.ClientSession) (server.List, error) {
	list := server.List{Tools: []server.Tool{}, Protocol: s.InitializeResult().ProtocolVersion, Left: map[string]string{}}
	r := reader{list: &list, names: map[string]bool{}}
	cursors := map[string]bool{}
	params := &mcp.ListToolsParams{}
	if c := s.InitializeResult().Capabilities; c == nil || c.Tools == nil {
		r.finish()
		return list, nil // it has none to offer
	}
	for range maxPages {
		page, err := s.ListTools(ctx, params)
		if err != nil {
			return list, err
		}
		if err := r.page(page); err != nil {
			return list, err
		}
		if page.NextCursor == "" {
			r.finish()
			return list, nil
		}
		if cursors[page.NextCursor] {
			return list, &upstream.Failure{Code: upstream.CodeInvalid, Message: "The server's list of tools has no end: it gave the same cursor twice."}
		}
		cursors[page.NextCursor] = true
		params = &mcp.ListToolsParams{Cursor: page.NextCursor}
	}
	return list, &upstream.Failure{Code: upstream.CodeInvalid, Message: fmt.Sprintf("The server's list of tools has more than %d pages.", maxPages)}
}

// reader reads the pages of one list.
type reader struct {
	list  *server.List
	names map[string]bool
	size  int
	more  int // that are left out beyond maxLeft
}

// described is a tool with what decides whether it can be called.
type described struct {
	server.Tool

	Execution struct {
		TaskSupport string `json:"taskSupport"`
	} `json:"execution"`
}

// page adds the tools of a page. Those that the SDK refuses are in the text that
// it did not read only.
func (r *reader) page(p *mcp.ListToolsResult) error {
	taken := map[string]bool{}
	for _, t := range p.Tools {
		taken[t.Name] = true
	}
	text, ok := p.Meta[wire.RawTools].(string)
	if !ok {
		if len(p.Tools) == 0 {
			return nil
		}
		return errors.New("the list of tools cannot be read")
	}
	var tools []described
	if err := json.Unmarshal([]byte(text), &tools); err != nil {
		return fmt.Errorf("the list of tools cannot be read: %w", err)
	}
	for _, one := range tools {
		t := one.Tool
		why := r.refuses(t)
		switch {
		case why != "":
		case !taken[t.Name]:
			why = "its x-mcp-header is not valid"
		case one.Execution.TaskSupport == "required":
			why = "it runs as a task only"
		}
		if why != "" {
			r.leave(upstream.Limit(t.Name, maxToolName), why)
			continue
		}
		t.Hash = hashOf(t)
		r.names[t.Name] = true
		r.list.Tools = append(r.list.Tools, t)
	}
	return nil
}

// leave notes a tool that is left out.
func (r *reader) leave(name, why string) {
	if _, known := r.list.Left[name]; !known && len(r.list.Left) == maxLeft {
		r.more++
		return
	}
	r.list.Left[name] = why
}

// refuses says why a tool is left out; empty where it is not.
func (r *reader) refuses(t server.Tool) string {
	size := len(t.Input) + len(t.Output) + len(t.Description) + len(t.Title)
	switch {
	case !named(t.Name):
		return "its name is not one of 1 to 128 characters"
	case r.names[t.Name]:
		return "the server has another tool of this name"
	case len(r.list.Tools) >= maxTools:
		return fmt.Sprintf("the server has more than %d tools", maxTools)
	case len(t.Description) > maxDescription:
		return fmt.Sprintf("its description is longer than %d bytes", maxDescription)
	case size > maxSchema:
		return fmt.Sprintf("its schemas have more than %d bytes", maxSchema)
	case r.size+size > maxSchemas:
		return fmt.Sprintf("the schemas of the server have more than %d bytes", maxSchemas)
	}
	if why := unreadable(t); why != "" {
		return why
	}
	r.size += size
	return ""
}

// unreadable says what is wrong with the schemas of a tool. The word isResource
// is Portico's own: with it, a server could ask for the caller's files.
func unreadable(t server.Tool) string {
	var object struct {
		Type any `json:"type"`
	}
	if json.Unmarshal(t.Input, &object) != nil || object.Type != "object" {
		return "its inputSchema is not that of an object"
	}
	for name, schema := range map[string]json.RawMessage{"inputSchema": t.Input, "outputSchema": t.Output} {
		if len(schema) == 0 {
			continue
		}
		if strings.Contains(string(schema), `"isResource"`) {
			return "its " + name + " has the word isResource"
		}
		if _, err := jsonschema.Compile(schema); err != nil {
			return "its " + name + " cannot be read: " + upstream.Limit(err.Error(), upstream.MaxReason)
		}
	}
	return ""
}

// named reports whether a name can be sent back. Servers have names that the
// protocol does not allow, such as with spaces; Portico's names are plain.
func named(name string) bool {
	return name != "" && len(name) <= maxToolName && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

func (r *reader) finish() {
	hashes := make([]string, len(r.list.Tools))
	for i, t := range r.list.Tools {
		hashes[i] = t.Name + " " + t.Hash
	}
	slices.Sort(hashes)
	r.list.Hash = digest([]byte(strings.Join(hashes, "\n")))
	if len(r.list.Left) == 0 {
		r.list.Left = nil
	}
	if r.more > 0 {
		r.list.Left[fmt.Sprintf("and %d more", r.more)] = "their reasons are not kept"
	}
}

func hashOf(t server.Tool) string {
	t.Hash = ""
	text, err := json.Marshal(t)
	if err != nil {
		text = []byte(t.Name) // schemas were compiled, so that they are JSON
	}
	return digest(text)
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Differs compares two lists.
func Differs(before, now server.List) Change {
	var c Change
	old := map[string]string{}
	for _, t := range before.Tools {
		old[t.Name] = t.Hash
	}
	for _, t := range now.Tools {
		hash, was := old[t.Name]
		delete(old, t.Name)
		switch {
		case !was:
			c.Added = append(c.Added, t.Name)
		case hash != t.Hash:
			c.Changed = append(c.Changed, t.Name)
		}
	}
	for name := range old {
		c.Removed = append(c.Removed, name)
	}
	slices.Sort(c.Removed)
	return c
}

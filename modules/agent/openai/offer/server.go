package offer

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/tool/approval"
)

// server is a tool of type mcp: a toolset or an MCP server of the user's.
type server struct {
	Label     string          `json:"server_label"`
	Callers   []string        `json:"allowed_callers"`
	Allowed   json.RawMessage `json:"allowed_tools"`
	Approval  json.RawMessage `json:"require_approval"`
	URL       string          `json:"server_url"`
	Connector string          `json:"connector_id"`
	Tunnel    string          `json:"tunnel_id"`
	Token     string          `json:"authorization"`
	Headers   json.RawMessage `json:"headers"`
	Deferred  bool            `json:"defer_loading"`
}

const addFirst = "Add the server to Portico, which keeps its address and its credentials, and name it by server_label alone; a client that insists on server_url gives one that cannot exist, such as https://server.invalid."

func (r *reading) server(at string, raw json.RawMessage) error {
	var s server
	if err := json.Unmarshal(raw, &s); err != nil {
		return failure.Invalid(at, "The tool cannot be read: server_label is a text, allowed_callers a list.")
	}
	for param, given := range map[string]bool{
		"server_url": s.URL != "" && !nowhere(s.URL), "connector_id": s.Connector != "", "tunnel_id": s.Tunnel != "", "authorization": s.Token != "",
		"headers": len(s.Headers) > 0 && string(s.Headers) != "null" && string(bytes.TrimSpace(s.Headers)) != "{}",
	} {
		if given {
			return failure.Unsupported(at+"."+param, "Servers cannot be brought with a request here.").Do(addFirst)
		}
	}
	if s.Label == "" {
		return failure.New(errs.Invalid, at+".server_label", failure.Missing, "Missing required parameter: '%s.server_label'.", at)
	}
	if s.Deferred {
		return failure.Unsupported(at+".defer_loading", "Tools cannot be loaded later here.").Do("Leave defer_loading out: programs search the tools themselves.")
	}
	viaPrograms := s.Callers == nil // some clients cannot say it
	if s.Callers != nil {
		var err error
		if _, viaPrograms, err = callers(at, s.Callers); err != nil {
			return err
		}
	}
	if !viaPrograms {
		return failure.Invalid(at+".allowed_callers", "The tools of a server are called by programs only here.").Do(`Say "allowed_callers": ["programmatic"].`)
	}
	if err := r.known(at+".server_label", s.Label); err != nil {
		return err
	}
	return r.add(at, s)
}

// nowhere reports whether an address cannot exist, by its name: RFC 2606. Clients that
// insist on an address give such a one, which says nothing.
func nowhere(address string) bool {
	u, err := url.Parse(address)
	return err == nil && strings.HasSuffix("."+u.Hostname(), ".invalid")
}

// add gives a server's tools to programs.
func (r *reading) add(at string, s server) error {
	names, err := allowed(at+".allowed_tools", s.Allowed)
	if err != nil {
		return err
	}
	level, err := required(at+".require_approval", s.Approval)
	if err != nil {
		return err
	}
	r.servers = append(r.servers, named{s.Label, names, level, at})
	return nil
}

// named is a server whose tools programs may call; without names all of them.
type named struct {
	label string
	names []string
	level approval.Level
	at    string
}

// allowed reads allowed_tools; nil is all of them.
func allowed(at string, raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var names []string
	if json.Unmarshal(raw, &names) != nil {
		var filter struct {
			Names []string `json:"tool_names"`
			Read  *bool    `json:"read_only"`
		}
		if json.Unmarshal(raw, &filter) != nil {
			return nil, failure.Invalid(at, "allowed_tools must be a list of names, or an object with tool_names.")
		}
		if filter.Read != nil {
			return nil, failure.Unsupported(at+".read_only", "Tools cannot be chosen by whether they only read here.").Do("Name them in tool_names.")
		}
		names = filter.Names
	}
	if len(names) == 0 {
		return nil, failure.Invalid(at, "allowed_tools allows no tool.").Do("Leave the server out.")
	}
	return names, nil
}

// required reads require_approval, which is always where it is left out:
// docs/wire/openai.md#approvals.
func required(at string, raw json.RawMessage) (approval.Level, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return approval.Always, nil
	}
	var word string
	if json.Unmarshal(raw, &word) != nil {
		return "", failure.Unsupported(at, "Approval cannot depend on the tool here.").
			Do(`Say "always" or "never": with "never", what your own rules say of each tool still holds.`)
	}
	switch word {
	case "always":
		return approval.Always, nil
	case "never":
		return approval.Never, nil
	}
	return "", failure.Invalid(at, "require_approval is always or never, not %q.", word)
}

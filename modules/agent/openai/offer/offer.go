// Package offer reads what a request to OpenAI's Responses API offers a model: its
// tools, and the choice among them.
package offer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/tool/approval"
)

// Types of tools, and what a program is called in allowed_callers.
const (
	functionType  = "function"
	namespaceType = "namespace"
	programsType  = "programmatic_tool_calling"
	mcpType       = "mcp"

	direct   = "direct"
	programs = "programmatic"
)

// maxSchema is the largest schema of a tool, in bytes.
const maxSchema = 256 << 10

// Extension is what requests say beside the vendor's own members.
type Extension struct {
	_         struct{} `additionalProperties:"true"`
	Toolsets  []string `json:"toolsets,omitempty" maxItems:"100" doc:"The toolsets and MCP servers whose tools programs call, by their keys; all that the user may use when left out" example:"[\"demo\"]"`
	Approval  string   `json:"approval,omitempty" enum:"never,first,always" doc:"When calls of the server's tools wait for a person, at least"`
	TimeoutMS int64    `json:"timeout_ms,omitempty" minimum:"0" maximum:"86400000" doc:"Bounds one program, in milliseconds of its own work"`
}

// In is the part of a request that is read here.
type In struct {
	Tools   []json.RawMessage
	Choice  json.RawMessage
	Portico *Extension
	// Within is where a function stands in its tool: empty, or .function.
	Within string
	// Most is how many tools a request may have.
	Most int
	// Usable are the toolsets and MCP servers of the user's. It is asked where a request
	// names some.
	Usable func() ([]string, error)
}

// Offer is what a request offers.
type Offer struct {
	Tools    []dialogue.Tool
	Programs *dialogue.Programs // nil for none
	Choice   model.Choice

	names map[string]Name // by the name of the tool
}

// Name is what a client calls a function of its own.
type Name struct {
	Namespace, Name string
	// Described says that it has an output_schema.
	Described bool
}

// Outside is what the client calls a tool.
func (o Offer) Outside(tool string) Name {
	if n, ok := o.names[tool]; ok {
		return n
	}
	return Name{Name: tool}
}

// Inside is the name of the tool that a client calls by these.
func Inside(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "_" + name
}

var pattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Read reads an offer.
func Read(in In) (Offer, error) {
	r := reading{in: in, out: Offer{names: map[string]Name{}}}
	if len(in.Tools) > in.Most {
		return Offer{}, failure.Invalid("tools", "A request may have %d tools; these are %d.", in.Most, len(in.Tools))
	}
	for i, raw := range in.Tools {
		if err := r.tool(fmt.Sprintf("tools[%d]", i), raw); err != nil {
			return Offer{}, err
		}
	}
	if len(r.out.Tools) > in.Most {
		return Offer{}, failure.Invalid("tools", "A request may have %d functions; these are %d.", in.Most, len(r.out.Tools))
	}
	if err := r.settle(); err != nil {
		return Offer{}, err
	}
	var err error
	r.out.Choice, err = r.choice()
	return r.out, err
}

// reading is an offer while it is read.
type reading struct {
	in      In
	out     Offer
	usable  []string // once they were asked for
	asked   bool
	servers []named
}

func (r *reading) tool(at string, raw json.RawMessage) error {
	var head struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return failure.Invalid(at, "A tool must be an object with a type.")
	}
	switch head.Type {
	case functionType:
		return r.function(at+r.in.Within, "", raw)
	case namespaceType:
		return r.namespace(at, raw)
	case mcpType:
		return r.server(at, raw)
	case programsType:
		if r.out.Programs != nil {
			return failure.Invalid(at, "There is more than one tool programmatic_tool_calling.")
		}
		r.out.Programs = &dialogue.Programs{Asks: true}
		return nil
	case "":
		return failure.New(errs.Invalid, at+".type", failure.Missing, "Missing required parameter: '%s.type'.", at)
	}
	return failure.New(errs.Invalid, at+".type", failure.UnsupportedValue, "This server has no tools of type %q.", head.Type).
		Do("It has function, namespace, programmatic_tool_calling and mcp. What the vendor hosts, such as web_search, is not here: install a toolset that does it, and programs can call it.")
}

// settle holds the tools against each other once all are read.
func (r *reading) settle() error {
	p := r.out.Programs
	if p == nil {
		return r.withoutPrograms()
	}
	if _, taken := r.out.names[dialogue.RunCode]; taken {
		return failure.Invalid("tools", "A function may not be called %s here: it is how the model runs programs.", dialogue.RunCode)
	}
	r.addServers(p)
	if own := r.in.Portico; own != nil {
		return r.own(p, own)
	}
	return nil
}

// addServers gives the tools of the servers that the request names to programs. One
// level holds for all calls, so that the strictest counts.
func (r *reading) addServers(p *dialogue.Programs) {
	for _, s := range r.servers {
		p.Approval = approval.Stricter(p.Approval, s.level)
		if !slices.Contains(p.Toolsets, s.label) {
			p.Toolsets = append(p.Toolsets, s.label)
		}
		if s.names != nil {
			if p.Selected == nil {
				p.Selected = map[string][]string{}
			}
			p.Selected[s.label] = append(p.Selected[s.label], s.names...)
		}
	}
}

func (r *reading) withoutPrograms() error {
	const add = "Add {\"type\":\"programmatic_tool_calling\"} to tools."
	if len(r.servers) > 0 {
		return failure.Invalid(r.servers[0].at, "The tools of a server are called by programs only, and this request has none.").Do(add)
	}
	for _, t := range r.out.Tools {
		if !t.Direct {
			return failure.Invalid("tools", "Only programs may call %s, and this request has none.", t.Name).Do(add)
		}
	}
	if own := r.in.Portico; own != nil && (own.Toolsets != nil || own.Approval != "" || own.TimeoutMS != 0) {
		return failure.Invalid("portico", "portico is about programs, and this request has none.").Do(add)
	}
	return nil
}

// own reads the extension.
func (r *reading) own(p *dialogue.Programs, own *Extension) error {
	const longest = int64(24 * time.Hour / time.Millisecond)
	if own.TimeoutMS < 0 || own.TimeoutMS > longest {
		return failure.Invalid("portico.timeout_ms", "portico.timeout_ms must be from 0 to %d.", longest)
	}
	p.Timeout = time.Duration(own.TimeoutMS) * time.Millisecond
	level, err := approval.ParseLevel(own.Approval)
	if err != nil {
		return failure.At("portico.approval", err)
	}
	if level != "" {
		p.Approval = approval.Stricter(p.Approval, level)
	}
	if own.Toolsets == nil {
		return nil
	}
	if p.Toolsets == nil {
		p.Toolsets = []string{}
	}
	for i, key := range own.Toolsets {
		at := fmt.Sprintf("portico.toolsets[%d]", i)
		if err := r.known(at, key); err != nil {
			return err
		}
		if !slices.Contains(p.Toolsets, key) {
			p.Toolsets = append(p.Toolsets, key)
		}
	}
	return nil
}

// known refuses the key of a toolset that the user has not.
func (r *reading) known(at, key string) error {
	if !r.asked {
		var err error
		if r.usable, err = r.in.Usable(); err != nil {
			return err
		}
		r.asked = true
	}
	if !slices.Contains(r.usable, key) {
		return failure.Invalid(at, "You have no toolset and no MCP server %q.", key).Do("Install it, or add the server, in the console or over the API first.")
	}
	return nil
}

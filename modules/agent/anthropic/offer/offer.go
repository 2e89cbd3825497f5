// Package offer reads the tools that a request offers its model and its programs.
package offer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/anthropic/search"
	"github.com/portico-run/portico/modules/agent/anthropic/wire"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/tool/approval"
)

var (
	codeTypes = regexp.MustCompile(`^code_execution_(20250522|20250825|20260120|20260521)$`)
	toolNames = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

// wireTool is a tool of a request, of whatever type.
type wireTool struct {
	Type           string            `json:"type"`
	Name           string            `json:"name"`
	Description    string            `json:"description"`
	InputSchema    json.RawMessage   `json:"input_schema"`
	AllowedCallers []string          `json:"allowed_callers"`
	DeferLoading   bool              `json:"defer_loading"`
	Strict         bool              `json:"strict"`
	InputExamples  []json.RawMessage `json:"input_examples"`

	// Of mcp_toolset.
	Server  string               `json:"mcp_server_name"`
	Default *mcpConfig           `json:"default_config"`
	Configs map[string]mcpConfig `json:"configs"`
}

type mcpConfig struct {
	Enabled *bool `json:"enabled"`
}

// Server is a server of the user's, whose tools programs call.
type Server struct {
	Type          string `json:"type"`
	Name          string `json:"name"`
	URL           string `json:"url"`
	Configuration *struct {
		Enabled *bool    `json:"enabled"`
		Allowed []string `json:"allowed_tools"`
	} `json:"tool_configuration"`
}

// Extension is what a request may say beyond the vendor's members.
type Extension struct {
	Toolsets *[]string `json:"toolsets"`
	Approval string    `json:"approval"`
	Timeout  int64     `json:"timeout_ms"`
}

// Choice says which tools the model may call.
type Choice struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	OneByOne bool   `json:"disable_parallel_tool_use"`
}

// Offer are the tools of a request.
type Offer struct {
	Tools    []dialogue.Tool
	Programs *dialogue.Programs
	searches []string // names of tools that search the others
	names    map[string]bool
	callable bool   // programs may call the client's tools
	Caller   string // how calls of programs are marked
}

// Reader reads what requests offer.
type Reader struct {
	// Tools is how many tools a request may have.
	Tools int
	// Endpoint is where clients reach this server as an MCP server.
	Endpoint string
}

// maxSchema is the largest schema of a tool, in bytes.
const maxSchema = 256 << 10

// Read reads the tools of a request, and what else says which there are.
func (r Reader) Read(tools []json.RawMessage, servers []Server, x *Extension) (Offer, error) {
	o := Offer{names: map[string]bool{}, Caller: wire.LateCode}
	if len(tools) > r.Tools {
		return o, wire.Coded(wire.Invalid("tools", "there may be %d tools at most", r.Tools), "available_tools_limit_exceeded")
	}
	list := make([]wireTool, len(tools))
	for i, raw := range tools {
		if json.Unmarshal(raw, &list[i]) != nil {
			return o, wire.Invalid(wire.At("tools", i), "Input should be a tool")
		}
		if codeTypes.MatchString(list[i].Type) {
			if err := o.code(wire.At("tools", i), list[i]); err != nil {
				return o, err
			}
		}
	}
	for i, t := range list {
		if err := o.add(wire.At("tools", i), t); err != nil {
			return o, err
		}
	}
	if err := r.toolsets(servers, list, &o); err != nil {
		return o, err
	}
	return o, o.extend(x)
}

// code makes programs of the tool of that name.
func (o *Offer) code(parameter string, t wireTool) error {
	if o.Programs != nil {
		return wire.Invalid(parameter, "there may be one tool of type %s…", wire.CodePrefix)
	}
	if t.Name != wire.CodeName {
		return wire.Invalid(parameter+".name", "Input should be '%s'", wire.CodeName)
	}
	o.Programs = &dialogue.Programs{}
	o.callable = t.Type != wire.OldestCode
	if t.Type == wire.EarlyCode {
		o.Caller = wire.EarlyCode
	}
	return o.name(parameter, wire.CodeName)
}

func (o *Offer) name(parameter, name string) error {
	if o.names[name] {
		return wire.Coded(wire.Invalid(parameter+".name", "Tool names must be unique: %s", name), "tool_name_conflict")
	}
	o.names[name] = true
	return nil
}

func (o *Offer) add(parameter string, t wireTool) error {
	switch {
	case t.Type == "" || t.Type == "custom":
		return o.custom(parameter, t)
	case codeTypes.MatchString(t.Type), t.Type == "mcp_toolset":
		return nil
	case search.Is(t.Type):
		if t.Name != search.NameOf(t.Type) {
			return wire.Invalid(parameter+".name", "Input should be '%s'", search.NameOf(t.Type))
		}
		o.searches = append(o.searches, t.Name)
		return o.name(parameter, t.Name)
	}
	return wire.Invalid(parameter+".type", "this server has no tool of type '%s'.", t.Type).
		Do("Leave it out, or describe what your client executes as a custom tool.")
}

// custom takes a tool of the client's.
func (o *Offer) custom(parameter string, t wireTool) error {
	switch {
	case !toolNames.MatchString(t.Name):
		return wire.Invalid(parameter+".name", "String should match pattern '%s'", toolNames)
	case !wire.IsObject(t.InputSchema):
		return wire.Invalid(parameter+".input_schema", "Input should be a JSON Schema of an object")
	case len(t.InputSchema) > maxSchema:
		return wire.Invalid(parameter+".input_schema", "a schema may have %d bytes at most", maxSchema)
	}
	if err := o.name(parameter, t.Name); err != nil {
		return err
	}
	if t.Name == wire.ApprovalTool && o.Programs != nil {
		o.Programs.Asks = true
		return nil
	}
	one := dialogue.Tool{
		Name: t.Name, Description: describe(t), Schema: t.InputSchema, Strict: t.Strict, Deferred: t.DeferLoading, Direct: t.AllowedCallers == nil,
	}
	for _, caller := range t.AllowedCallers {
		switch {
		case caller == wire.Direct:
			one.Direct = true
		case codeTypes.MatchString(caller) && caller != wire.OldestCode:
			one.Code = o.callable
		default:
			return wire.Invalid(parameter+".allowed_callers", "Input should be '%s', '%s', '%s' or 'code_execution_20260521'", wire.Direct, wire.EarlyCode, wire.LateCode)
		}
	}
	if !one.Direct && !one.Code {
		return wire.Invalid(parameter+".allowed_callers", "nothing could call this tool").Do("Add a tool of type code_execution_20260521, or the caller wire.Direct.")
	}
	o.Tools = append(o.Tools, one)
	return nil
}

// describe is the description of a tool with the examples of its arguments.
func describe(t wireTool) string {
	var b strings.Builder
	b.WriteString(cmp.Or(strings.TrimSpace(t.Description), "The tool "+t.Name+"."))
	if len(t.InputExamples) > 0 {
		b.WriteString("\n\nExamples of arguments:")
		for _, example := range t.InputExamples {
			b.WriteString("\n")
			b.Write(wire.Compact(example))
		}
	}
	return b.String()
}

// toolsets limits programs to the servers that the request names.
func (r Reader) toolsets(servers []Server, list []wireTool, o *Offer) error {
	if len(servers) > 0 && o.Programs == nil {
		return wire.Invalid("mcp_servers", "the tools of servers are called by programs here").Do("Add a tool of type code_execution_20260521.")
	}
	for i, s := range servers {
		parameter := wire.At("mcp_servers", i)
		switch {
		case s.Name == "":
			return wire.Invalid(parameter+".name", "Field required")
		case s.URL != "" && strings.TrimRight(s.URL, "/") != r.Endpoint:
			return wire.Invalid(parameter+".url", "this server connects to no address that a request names.").
				Do("Have the server set up here, and name it without a url.")
		}
		if s.Configuration != nil && s.Configuration.Enabled != nil && !*s.Configuration.Enabled {
			continue
		}
		o.toolset(s.Name)
		if s.Configuration != nil && s.Configuration.Allowed != nil {
			o.selected(s.Name, s.Configuration.Allowed)
		}
	}
	for i, t := range list {
		if t.Type != "mcp_toolset" {
			continue
		}
		if err := o.configure(wire.At("tools", i), t); err != nil {
			return err
		}
	}
	if len(servers) > 0 && o.Programs.Toolsets == nil {
		o.Programs.Toolsets = []string{} // all of them are turned off
	}
	return nil
}

func (o *Offer) toolset(key string) {
	if !slices.Contains(o.Programs.Toolsets, key) {
		o.Programs.Toolsets = append(o.Programs.Toolsets, key)
	}
}

func (o *Offer) selected(key string, tools []string) {
	if o.Programs.Selected == nil {
		o.Programs.Selected = map[string][]string{}
	}
	o.Programs.Selected[key] = tools
}

// configure applies what a request says of the tools of a server.
func (o *Offer) configure(parameter string, t wireTool) error {
	if o.Programs == nil || !slices.Contains(o.Programs.Toolsets, t.Server) {
		return wire.Invalid(parameter+".mcp_server_name", "mcp_servers names no server '%s'", t.Server)
	}
	on := t.Default == nil || t.Default.Enabled == nil || *t.Default.Enabled
	var chosen []string
	for name, c := range t.Configs {
		enabled := on
		if c.Enabled != nil {
			enabled = *c.Enabled
		}
		switch {
		case on && !enabled:
			return wire.Invalid(parameter+".configs", "a single tool cannot be turned off here").Do("Turn all off in default_config, and on those that are wanted.")
		case enabled && !on:
			chosen = append(chosen, name)
		}
	}
	if !on {
		slices.Sort(chosen)
		o.selected(t.Server, append([]string{}, chosen...))
	}
	return nil
}

// maxTimeout is the longest time that a request may give a program.
const maxTimeout = 24 * time.Hour

// extend applies the members that are not the vendor's.
func (o *Offer) extend(x *Extension) error {
	if x == nil {
		return nil
	}
	if o.Programs == nil {
		return wire.Invalid("portico", "it is for programs").Do("Add a tool of type code_execution_20260521.")
	}
	if x.Toolsets != nil {
		if o.Programs.Toolsets == nil {
			o.Programs.Toolsets = []string{}
		}
		for _, key := range *x.Toolsets {
			o.toolset(key)
		}
	}
	switch level := approval.Level(x.Approval); {
	case x.Approval == "":
	case slices.Contains([]approval.Level{approval.Never, approval.First, approval.Always}, level):
		o.Programs.Approval = level
	default:
		return wire.Invalid("portico.approval", "Input should be 'never', 'first' or 'always'")
	}
	if x.Timeout < 0 || x.Timeout > maxTimeout.Milliseconds() {
		return wire.Invalid("portico.timeout_ms", "Input should be a number of milliseconds up to %d", maxTimeout.Milliseconds())
	}
	o.Programs.Timeout = time.Duration(x.Timeout) * time.Millisecond
	return nil
}

// Load gives the model tools that were found before.
func (o *Offer) Load(names []string) error {
	for _, name := range names {
		i := slices.IndexFunc(o.Tools, func(t dialogue.Tool) bool { return t.Name == name })
		if i < 0 {
			return wire.Coded(errs.Newf(errs.Invalid, "Tool reference '%s' not found in available tools", name), "tool_reference_unresolved")
		}
		o.Tools[i].Deferred = false
	}
	return nil
}

// own are the tools that search the deferred ones.
func (o *Offer) own() []dialogue.OwnTool {
	var own []dialogue.OwnTool
	for _, name := range o.searches {
		own = append(own, search.Tool(name, o.Tools))
	}
	return own
}

// Choose gives a request the tools, and says which of them the model may call.
func (o *Offer) Choose(req *dialogue.Request, c *Choice) error {
	req.Tools, req.Programs, req.Own = o.Tools, o.Programs, o.own()
	if c == nil {
		return nil
	}
	req.OneByOne = c.OneByOne
	word := ""
	switch c.Type {
	case "auto":
		return nil
	case "any":
		word = `"required"`
	case "none":
		word = `"none"`
	case "tool":
		switch {
		case c.Name == wire.CodeName && o.Programs != nil:
			req.Programs.Required = true
			return nil
		case !o.calls(c.Name):
			return wire.Invalid("tool_choice.name", "there is no tool '%s' that the model may call itself", c.Name)
		}
		word = fmt.Sprintf(`{"type":"function","name":%q}`, c.Name)
	default:
		return wire.Invalid("tool_choice.type", "Input should be 'auto', 'any', 'tool' or 'none'")
	}
	var err error
	req.Choice, err = model.ParseChoice(json.RawMessage(word))
	return err
}

// calls reports whether the model may call a tool itself, and now.
func (o *Offer) calls(name string) bool {
	return slices.Contains(o.searches, name) ||
		slices.ContainsFunc(o.Tools, func(t dialogue.Tool) bool { return t.Name == name && t.Direct && !t.Deferred })
}

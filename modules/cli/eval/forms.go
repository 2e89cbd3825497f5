package eval

import "github.com/portico-run/portico/dev/services/tasks"

// form is one way in which tools are shown to a model: settings of a server, and
// what its runs say about programmatic tool calling (PTC).
type form struct {
	name, about string
	ptc         string
	settings    []string
	script      tasks.Form
}

// forms are those that are compared.
func forms() []form {
	return []form{
		{"plain", "the model calls every tool itself, without code", "off", []string{"AGENT_BUILTINS=all", "AGENT_DESCRIBE=auto"}, tasks.Form{}},
		{"lines", "code; a line of Python for each tool", "on", []string{"AGENT_BUILTINS=all", "AGENT_DESCRIBE=lines"}, tasks.Form{Code: true}},
		{"docs", "code; the documentation of the SDK", "on", []string{"AGENT_BUILTINS=all", "AGENT_DESCRIBE=docs"}, tasks.Form{Code: true, Classes: true}},
		{"search", "code; toolsets by name, and the model finds their tools", "on", []string{"AGENT_BUILTINS=all", "AGENT_DESCRIBE=names"}, tasks.Form{Code: true, Search: true}},
		{"minimal", "code; the tool that runs it is the only one", "on", []string{"AGENT_BUILTINS=minimal", "AGENT_DESCRIBE=auto"}, tasks.Form{Code: true}},
	}
}

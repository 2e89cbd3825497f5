package dialogue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/prompt"
	"github.com/portico-run/portico/modules/catalogue/signature"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
)

// RunCode is the name of the tool with which models run programs.
const RunCode = "run_code"

const runCodeText = "Run a complete Python program in a sandbox and get what it prints. The functions that it can call are listed in the instructions."

// runCodeSchema is in the subset of JSON Schema that providers hold their models to.
const runCodeSchema = `{"type":"object","properties":{"code":{"type":"string","description":"The program. What it does not print is lost."}},"required":["code"],"additionalProperties":false}`

// ProgramCall is the item of a program, ProgramOutput that of its output, as the model
// that wrote it knows them.
func ProgramCall(p Program) model.Item {
	arguments, _ := json.Marshal(map[string]string{"code": p.Code}) // texts always marshal
	return model.CallItem(p.ID, RunCode, string(arguments))
}

// ProgramOutput is the item of what a program printed, with at most so many bytes of
// that; all of it for 0.
func ProgramOutput(o Output, most int) model.Item {
	if o.Failure != "" {
		return model.FailedOutput(o.Program, Told(o, most))
	}
	return model.Output(o.Program, Told(o, most))
}

// Told is what a model is told of a program: at most so many bytes of what it printed,
// all of it for 0.
func Told(o Output, most int) string {
	var b strings.Builder
	b.WriteString(shorten(o.Stdout, most))
	if o.Failure != "" {
		line(&b)
		fmt.Fprintf(&b, "[%s]\n%s", o.Why, shorten(strings.TrimSpace(o.Stderr), most))
	}
	if len(o.Files) > 0 {
		names := make([]string, len(o.Files))
		for i, f := range o.Files {
			names[i] = f.Name
		}
		line(&b)
		fmt.Fprintf(&b, "[Files: %s]", strings.Join(names, ", "))
	}
	if b.Len() == 0 {
		return "[It printed nothing.]"
	}
	return b.String()
}

func line(b *strings.Builder) {
	if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
		b.WriteString("\n")
	}
}

// shorten keeps the beginning and the end of a text that is too long, and says so.
func shorten(text string, most int) string {
	if most == 0 || len(text) <= most {
		return text
	}
	head := strings.ToValidUTF8(text[:most*2/3], "")
	tail := strings.ToValidUTF8(text[len(text)-most/3:], "")
	return fmt.Sprintf("%s\n[… %d bytes are left out here: print less, or in parts …]\n%s", head, len(text)-len(head)-len(tail), tail)
}

// described is what a model is told of programs, and what these may call.
type described struct {
	text     string
	toolsets []string
	stubs    []stub.Tool // the client's
	reader   string      // the function that reads what was left out
}

// describe says what programs of a conversation may call: the client's tools, a line
// each, and those of the user's toolsets, as far as there is room for their lines.
func (s *Service) describe(ctx context.Context, a actor.Actor, req Request) (described, error) {
	var d described
	lines, names, err := d.clients(req.Tools)
	if err != nil {
		return d, err
	}
	taken := len(names)
	if d.toolsets = req.Programs.Toolsets; d.toolsets == nil {
		if d.toolsets, err = s.deps.Toolsets.Usable(ctx, a); err != nil {
			return d, err
		}
	}
	d.reader = readerName
	var shown []prompt.Toolset
	var warnings []string
	if len(d.toolsets) > 0 {
		c, notes, err := s.deps.Toolsets.Describe(ctx, a, d.toolsets, req.Programs.Selected)
		if err != nil {
			return d, err
		}
		warnings = notes
		for _, key := range d.toolsets {
			t := prompt.Toolset{Key: key}
			for _, tool := range c.Tools(key) {
				names = append(names, tool.Call)
				if !slices.Contains(names[:taken], tool.Call) { // the client's comes first
					t.Lines = append(t.Lines, tool.Line())
				}
			}
			if len(t.Lines) > 0 {
				shown = append(shown, t)
			}
		}
	}
	for slices.Contains(names, d.reader) {
		d.reader += "_"
	}
	d.text = programsText(lines, prompt.Fit(shown), warnings)
	return d, nil
}

// clients are the lines of the client's tools that programs may call.
func (d *described) clients(tools []Tool) (lines, names []string, err error) {
	for _, t := range tools {
		if !t.Code {
			continue
		}
		one := stub.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema, Returns: signature.Result(t.Output)}
		name := stub.New(sandbox.Python, one).Identifier
		if name == "" || name == "print" || slices.Contains(names, name) {
			return nil, nil, errs.Newf(errs.Invalid, "The tool %q cannot be a function of a program: its name in Python would be %q.", t.Name, name).Do("Rename it.")
		}
		described := signature.Tool{Name: t.Name, Description: t.Description, Input: t.Schema, Output: t.Output}
		text := signature.Signature(name, described)
		if comment := signature.Comment(described); comment != "" {
			text += "  # " + comment
		}
		lines, names, d.stubs = append(lines, text), append(names, name), append(d.stubs, one)
	}
	return lines, names, nil
}

const programsHead = `# Programs

` + RunCode + ` runs Python. Use it where several calls are to be made, or results are to be filtered, joined or counted: only what the program prints comes back. Every program is complete in itself.

A line such as get_weather(city: str, days?: int) -> {sky: str} is a function that is there without an import: get_weather(city="Oslo"). What has a ? may be left out; what stands in **{...} is given that way, as in f(**{"from": 1}). A line that begins as server.tool(...) is called with the dot. A function returns the value, and raises ToolExecutionError when the call fails. Calls that do not depend on each other are made together: a, b = await asyncio.gather(f(1), f(2)). Calls that change something are made one after the other.
`

// programsText is the part of the instructions about programs.
func programsText(clients []string, toolsets []prompt.Toolset, warnings []string) string {
	var b strings.Builder
	b.WriteString(programsHead)
	if len(toolsets) > 0 {
		b.WriteString("\nInside programs, print(search_tools(\"words\")) finds functions and print(help(\"name\")) tells all about one.\n")
	}
	if len(clients) > 0 {
		fmt.Fprintf(&b, "\n## Functions\n\n%s\n", strings.Join(clients, "\n"))
	}
	for _, t := range toolsets {
		b.WriteString(t.String())
	}
	for _, w := range warnings {
		fmt.Fprintf(&b, "\n%s\n", w)
	}
	return b.String()
}

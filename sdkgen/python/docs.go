package python

import (
	"strings"
	"unicode"
)

// writeDocs renders the documentation of a toolset for a model: what to
// import, what a call looks like and gives back, and every signature with what
// a caller must know about its parameters. It goes into prompts, so it says
// nothing twice: types and defaults are in the signatures only.
func writeDocs(c class) string {
	var b strings.Builder
	b.WriteString("# " + markdownLine(c.title) + " (`" + strings.ReplaceAll(c.entry.Key, "`", "'") + "`)\n\n")
	writeText(&b, c.description)
	b.WriteString("```python\nfrom refly_tools." + c.entry.Module + " import " + c.entry.Class + "\n")
	if len(c.methods) > 0 {
		b.WriteString("\n" + example(c) + "```\n\n")
		b.WriteString("Class methods, no instance, no credentials. Every call returns a dict and never raises for a failed call: " +
			"`{\"status\": \"success\", \"data\": ...}` or `{\"status\": \"error\", \"error\": \"...\"}`. " +
			"Check `status` first. Leave an optional parameter out to use the tool's own default.\n")
	} else {
		b.WriteString("```\n\nThis toolset has no tools.\n")
	}
	for _, m := range c.methods {
		b.WriteString("\n" + methodDocs(m))
	}
	return b.String()
}

// methodDocs is the section of one tool.
func methodDocs(m method) string {
	var b strings.Builder
	b.WriteString("## " + m.python + "\n\n```python\n")
	b.WriteString(signature("def "+m.python, "", m, "") + ": ...\n```\n\n")
	writeText(&b, m.text)
	if m.returns != "Any" {
		b.WriteString("`data`: `" + strings.ReplaceAll(m.returns, "`", "'") + "`\n\n")
	}
	writeArgs(&b, m.fields, "")
	if m.open {
		b.WriteString("- `**" + m.extra + "`: further arguments by name\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// example is one call that runs as it is, of the tool with the most to show:
// the first that has a required parameter.
func example(c class) string {
	m := c.methods[0]
	for _, candidate := range c.methods {
		if len(candidate.fields) > 0 && !candidate.fields[0].optional() {
			m = candidate
			break
		}
	}
	var args []string
	for _, f := range m.fields {
		if !f.optional() {
			args = append(args, f.python+"="+placeholder(f))
		}
	}
	return "result = " + c.entry.Class + "." + m.python + "(" + strings.Join(args, ", ") + ")\n" +
		"print(result[\"data\"] if result[\"status\"] == \"success\" else result[\"error\"])\n"
}

// placeholder is a value of the field's type.
func placeholder(f field) string {
	switch {
	case len(f.typ.Literals) > 0:
		return f.typ.Literals[0]
	case f.typ.Any || len(f.typ.Names) == 0:
		return "None"
	}
	switch name := f.typ.Names[0]; {
	case name == "str":
		return `"..."`
	case name == "int":
		return "1"
	case name == "float":
		return "1.0"
	case name == "bool":
		return "True"
	case strings.HasPrefix(name, "List"):
		return "[]"
	default:
		return "{}"
	}
}

func writeArgs(b *strings.Builder, fields []field, indent string) {
	for _, f := range fields {
		if f.alternative != "" {
			b.WriteString(indent + "- " + f.alternative + ":\n")
			writeArgs(b, f.children, indent+"  ")
			continue
		}
		fallback := f.fallback
		if indent == "" && f.literal != "" {
			fallback = "" // the signature shows it
		}
		about := markdownLine(colonText(f, fallback))
		if indent == "" && about == "" && len(f.children) == 0 {
			continue // the signature says everything
		}
		b.WriteString(indent + "- `" + strings.ReplaceAll(oneLine(f.python), "`", "'") + "`")
		switch {
		case indent != "":
			b.WriteString(" (" + typeNote(f) + ")")
		case !f.optional():
			b.WriteString(" (required)")
		}
		b.WriteString(about + "\n")
		writeArgs(b, f.children, indent+"  ")
	}
}

// writeText writes a description as paragraphs that cannot take over the page:
// headings lose their meaning, and a code fence left open is closed.
func writeText(b *strings.Builder, text string) {
	lines := textLines(text)
	if len(lines) == 0 {
		return
	}
	fenced := false
	for _, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if !fenced && strings.HasPrefix(strings.TrimSpace(line), "#") {
			line = `\` + strings.TrimSpace(line)
		}
		b.WriteString(markdownLine(line) + "\n")
	}
	if fenced {
		b.WriteString("```\n")
	}
	b.WriteString("\n")
}

// markdownLine drops what cannot be seen.
func markdownLine(line string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, line)
}

package read

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The parts of a page of a DocC archive. What is not known is left out, with
// what is in it kept where that is text.
type (
	inline struct {
		Type, Text, Code, Identifier, Title, Destination, OverridingTitle string
		InlineContent                                                     []inline
	}
	docBlock struct {
		Type, Text, Name, Style, Syntax string
		Level, Start                    int
		Code                            []string
		InlineContent                   []inline
		Content                         []docBlock
		Items                           json.RawMessage
		Header                          string
		Rows                            [][][]docBlock
		Columns                         []struct{ Content []docBlock }
		Tabs                            []struct {
			Title   string
			Content []docBlock
		}
	}
	listItem struct {
		Content    []docBlock
		Term       struct{ InlineContent []inline }
		Definition struct{ Content []docBlock }
	}
	contentSection struct {
		Kind, Title  string
		Content      []docBlock
		Declarations []struct {
			Languages []string
			Tokens    []struct{ Text string }
		}
		Tokens     []struct{ Text string }
		Parameters []namedContent
		Items      []namedContent
		Values     []namedContent
	}
	namedContent struct {
		Name     string
		Required bool
		Type     json.RawMessage
		Content  []docBlock
	}
	group struct {
		Title       string
		Identifiers []string
	}
	reference struct {
		Title, URL, Kind, Role, Type, Alt string
		Abstract                          []inline
	}
)

// docWriter writes a page as Markdown. What is over its bound is not written:
// references make a short page long.
type docWriter struct {
	strings.Builder

	references map[string]reference
	left       int
}

func (w *docWriter) put(parts ...string) {
	for _, part := range parts {
		if w.left -= len(part); w.left >= 0 {
			w.WriteString(part)
		}
	}
}

func (w *docWriter) paragraph(parts ...string) {
	w.put(parts...)
	w.put("\n\n")
}

func (w *docWriter) page(n node) {
	if n.Metadata.RoleHeading != "" {
		w.paragraph("*", n.Metadata.RoleHeading, "*")
	}
	if len(n.Abstract) > 0 {
		w.paragraph(w.inline(n.Abstract))
	}
	for _, s := range n.PrimaryContentSections {
		if s.Kind == "declarations" {
			w.section(s)
		}
	}
	w.platforms(n)
	if len(n.DeprecationSummary) > 0 {
		w.paragraph("**Deprecated.**")
		w.blocks(n.DeprecationSummary)
	}
	for _, s := range n.PrimaryContentSections {
		if s.Kind != "declarations" {
			w.section(s)
		}
	}
	for _, part := range []struct {
		title  string
		groups []group
	}{{"Topics", n.TopicSections}, {"Relationships", n.RelationshipsSections}, {"See Also", n.SeeAlsoSections}} {
		w.groups(part.title, part.groups)
	}
}

func (w *docWriter) platforms(n node) {
	var list []string
	for _, p := range n.Metadata.Platforms {
		text := strings.TrimSpace(p.Name + " " + p.IntroducedAt)
		switch {
		case p.DeprecatedAt != "":
			text += " (deprecated in " + p.DeprecatedAt + ")"
		case p.Beta:
			text += " (beta)"
		}
		list = append(list, text)
	}
	if len(list) > 0 {
		w.paragraph("Available in ", strings.Join(list, ", "), ".")
	}
}

func (w *docWriter) section(s contentSection) {
	for _, d := range s.Declarations {
		language := ""
		if len(d.Languages) > 0 {
			language = d.Languages[0]
		}
		var code strings.Builder
		for _, t := range d.Tokens {
			code.WriteString(t.Text)
		}
		w.code(language, code.String())
	}
	switch s.Kind {
	case "parameters":
		w.named("Parameters", s.Parameters)
	case "possibleValues":
		w.named("Possible Values", s.Values)
	case "restParameters", "properties", "attributes", "restResponses":
		w.named(s.Title, s.Items)
	case "restEndpoint":
		var address strings.Builder
		for _, t := range s.Tokens {
			address.WriteString(t.Text)
		}
		w.code("http", address.String())
	default:
		w.blocks(s.Content)
	}
}

func (w *docWriter) named(title string, list []namedContent) {
	if len(list) == 0 {
		return
	}
	w.paragraph("## ", title)
	for _, p := range list {
		name := "- "
		if p.Name != "" {
			name += "`" + p.Name + "`"
		}
		if p.Required {
			name += " (required)"
		}
		w.put(name, ": ")
		w.hanging(p.Content)
	}
	w.put("\n")
}

// hanging writes blocks behind the mark of a list.
func (w *docWriter) hanging(list []docBlock) {
	inner := &docWriter{references: w.references, left: w.left}
	inner.blocks(list)
	w.left = min(w.left, inner.left+inner.Len()) // what was lost in it is lost here
	for n, line := range strings.Split(strings.TrimSpace(inner.String()), "\n") {
		if n > 0 && line != "" {
			w.put("   ") // as far as the text behind "1. "
		}
		w.put(line, "\n")
	}
}

func (w *docWriter) groups(title string, groups []group) {
	if len(groups) == 0 {
		return
	}
	w.paragraph("## ", title)
	for _, g := range groups {
		if g.Title != "" {
			w.paragraph("### ", g.Title)
		}
		for _, id := range g.Identifiers {
			r := w.references[id]
			if r.Title == "" {
				continue
			}
			w.put("- ", w.linked(id, r.Title))
			if abstract := w.inline(r.Abstract); abstract != "" {
				w.put(": ", abstract)
			}
			w.put("\n")
		}
		w.put("\n")
	}
}

// linked is the name of what is referred to: symbols as code, and what is
// elsewhere as a link. Addresses within the archive lead nowhere outside of it.
func (w *docWriter) linked(id, title string) string {
	r := w.references[id]
	switch {
	case strings.HasPrefix(r.URL, "http://") || strings.HasPrefix(r.URL, "https://"):
		return "[" + title + "](" + r.URL + ")"
	case r.Kind == "symbol":
		return "`" + title + "`"
	}
	return title
}

func (w *docWriter) inline(list []inline) string {
	var b strings.Builder
	for _, i := range list {
		if b.Len() > w.left {
			w.left = -1
			return ""
		}
		inner := w.inline(i.InlineContent)
		switch i.Type {
		case "codeVoice":
			b.WriteString("`" + i.Code + "`")
		case "reference":
			title := i.OverridingTitle
			if title == "" {
				title = w.references[i.Identifier].Title
			}
			b.WriteString(w.linked(i.Identifier, title))
		case "link":
			b.WriteString("[" + i.Title + "](" + i.Destination + ")")
		case "image":
			if alt := w.references[i.Identifier].Alt; alt != "" {
				b.WriteString("(image: " + alt + ")")
			}
		case "emphasis", "newTerm":
			b.WriteString("*" + inner + "*")
		case "strong", "inlineHead":
			b.WriteString("**" + inner + "**")
		default:
			b.WriteString(i.Text + inner)
		}
	}
	return b.String()
}

func (w *docWriter) code(language, code string) {
	fence := "```"
	for strings.Contains(code, fence) {
		fence += "`"
	}
	w.paragraph(fence, language, "\n", code, "\n", fence)
}

func (w *docWriter) blocks(list []docBlock) {
	for _, b := range list {
		w.block(b)
	}
}

func (w *docWriter) block(b docBlock) {
	switch b.Type {
	case "heading":
		w.paragraph(strings.Repeat("#", min(max(b.Level, 2), maxPath)), " ", b.Text)
	case "codeListing":
		w.code(b.Syntax, strings.Join(b.Code, "\n"))
	case "unorderedList", "orderedList", "termList":
		w.list(b)
	case "aside":
		name := b.Name
		if name == "" {
			name = b.Style
		}
		w.paragraph("**", name, "**")
		w.blocks(b.Content)
	case "table":
		w.table(b)
	case "row":
		for _, c := range b.Columns {
			w.blocks(c.Content)
		}
	case "tabNavigator":
		for _, t := range b.Tabs {
			w.paragraph("**", t.Title, "**")
			w.blocks(t.Content)
		}
	case "links":
		var ids []string
		if json.Unmarshal(b.Items, &ids) == nil {
			for _, id := range ids {
				w.put("- ", w.linked(id, w.references[id].Title), "\n")
			}
			w.put("\n")
		}
	default: // paragraphs, and what holds others
		if len(b.InlineContent) > 0 {
			w.paragraph(w.inline(b.InlineContent))
		}
		w.blocks(b.Content)
	}
}

func (w *docWriter) list(b docBlock) {
	var items []listItem
	if json.Unmarshal(b.Items, &items) != nil {
		return
	}
	for n, item := range items {
		switch {
		case b.Type == "termList":
			w.put("- **", w.inline(item.Term.InlineContent), "**: ")
			w.hanging(item.Definition.Content)
		case b.Type == "orderedList":
			w.put(fmt.Sprintf("%d. ", n+max(b.Start, 1)))
			w.hanging(item.Content)
		default:
			w.put("- ")
			w.hanging(item.Content)
		}
	}
	w.put("\n")
}

func (w *docWriter) table(b docBlock) {
	for n, row := range b.Rows {
		w.put("|")
		for _, cell := range row {
			inner := &docWriter{references: w.references, left: w.left}
			inner.blocks(cell)
			text := strings.ReplaceAll(strings.TrimSpace(inner.String()), "|", `\|`)
			w.left = min(w.left, inner.left+inner.Len())
			w.put(" ", strings.Join(strings.Fields(strings.ReplaceAll(text, "\n\n", "<br>")), " "), " |")
		}
		w.put("\n")
		if n == 0 {
			w.put("|", strings.Repeat("---|", len(row)), "\n")
		}
	}
	w.put("\n")
}

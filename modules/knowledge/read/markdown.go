package read

import (
	"context"
	"path"
	"regexp"
	"strings"

	"github.com/portico-run/portico/modules/knowledge/read/markup"
)

// Markdown reads Markdown files.
type Markdown struct{}

// Read implements Reader.
func (Markdown) Read(_ context.Context, s Source) (Document, error) {
	b, err := content(s, maxText)
	if err != nil {
		return Document{}, err
	}
	text, err := Decode(b, s.MIME)
	if err != nil {
		return Document{}, err
	}
	return ofMarkdown(s.Name, "", text)
}

// ofMarkdown is a document whose text is Markdown. Its title is the given one,
// that of its front matter, its first heading of level 1, or the name.
func ofMarkdown(name, title, text string) (Document, error) {
	front, text := frontMatter(text)
	if title == "" {
		title = front
	}
	sections, first := sectionsOf(text)
	if title == "" {
		title = first
	}
	if title == "" {
		title = path.Base(name)
	}
	if len(sections) == 0 {
		return Document{}, ErrEmpty.Do("The file has no text below its headings.")
	}
	return Document{Source: name, Title: title, Sections: sections}, nil
}

// frontTitle is the title in front matter, as YAML or TOML write it.
var frontTitle = regexp.MustCompile(`(?m)^title\s*[:=]\s*["']?(.*?)["']?\s*$`)

// frontMatter takes the settings off that stand before some Markdown, and
// returns the title that they name.
func frontMatter(text string) (title, rest string) {
	for _, fence := range []string{"---\n", "+++\n"} {
		after, found := strings.CutPrefix(text, fence)
		if !found {
			continue
		}
		settings, rest, closed := strings.Cut(after, "\n"+fence)
		if !closed {
			return "", text
		}
		if m := frontTitle.FindStringSubmatch(settings); m != nil {
			title = m[1]
		}
		return title, rest
	}
	return "", text
}

// maxPath is how many headings the path of a section names.
const maxPath = 6

var (
	atxHeading  = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$`)
	setextLine  = regexp.MustCompile(`^ {0,3}(=+|-{2,})[ \t]*$`)
	linkedText  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	headingMark = regexp.MustCompile("[*`]|\\\\([^A-Za-z0-9 ])")
)

// sectionsOf splits Markdown at its headings. The first heading of level 1 is
// returned, too; it is no part of paths, because it is the document's title.
func sectionsOf(text string) (sections []Section, first string) {
	var (
		path  [maxPath + 1]string
		body  []string
		fence string
	)
	title := func() string {
		var parts []string
		for _, p := range path[1:] {
			if p != "" {
				parts = append(parts, p)
			}
		}
		return strings.Join(parts, " > ")
	}
	flush := func() {
		if joined := strings.Trim(strings.Join(body, "\n"), "\n"); strings.TrimSpace(joined) != "" {
			sections = append(sections, Section{Title: title(), Text: joined})
		}
		body = body[:0]
	}
	open := func(level int, heading string) {
		flush()
		clear(path[level:])
		if level == 1 && first == "" {
			first = heading
			return
		}
		path[level] = heading
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if fence = markup.FenceAfter(fence, line); fence != "" {
			body = append(body, line)
			continue
		}
		if m := atxHeading.FindStringSubmatch(line); m != nil {
			open(len(m[1]), plainHeading(m[2]))
			continue
		}
		if m := setextLine.FindStringSubmatch(line); m != nil && paragraphLine(body) {
			heading := body[len(body)-1]
			body = body[:len(body)-1]
			level := 2
			if m[1][0] == '=' {
				level = 1
			}
			open(level, plainHeading(heading))
			continue
		}
		body = append(body, line)
	}
	flush()
	return sections, first
}

// paragraphLine reports whether the last line is a paragraph of one line, which
// an underline makes a heading.
func paragraphLine(body []string) bool {
	if len(body) == 0 {
		return false
	}
	last := strings.TrimSpace(body[len(body)-1])
	alone := len(body) == 1 || strings.TrimSpace(body[len(body)-2]) == ""
	return alone && last != "" && !strings.HasPrefix(last, "|") && !strings.HasPrefix(last, ">") && !strings.HasPrefix(last, "- ")
}

// plainHeading is a heading without its marks and the addresses of its links.
func plainHeading(s string) string {
	s = linkedText.ReplaceAllString(s, "$1")
	return strings.Join(strings.Fields(headingMark.ReplaceAllString(s, "$1")), " ")
}

// Markdown is the text of a document without its title.
func (d Document) Markdown() string {
	var b strings.Builder
	last := ""
	for n, s := range d.Sections {
		if n > 0 {
			b.WriteString("\n\n")
		}
		if s.Title != "" && s.Title != last {
			path := strings.Split(s.Title, " > ")
			b.WriteString(strings.Repeat("#", min(len(path)+1, maxPath)) + " " + path[len(path)-1] + "\n\n")
		}
		last = s.Title
		b.WriteString(s.Text)
	}
	return b.String()
}

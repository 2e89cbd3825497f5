package watch

import (
	"embed"
	"fmt"
	"strings"

	"github.com/alecthomas/chroma/v2"
)

//go:embed lexers/*.xml
var lexerFiles embed.FS

// highlighter finds keywords, texts and numbers in programs.
type highlighter struct{ lexers map[string]chroma.Lexer }

// Token is a piece of a line; Kind is a class of the style sheet: k for keywords, s
// for texts, n for numbers, c for comments, or nothing.
type Token struct {
	Kind string `json:"k"`
	Text string `json:"t"`
}

// Line is a line of a program, from 1.
type Line struct {
	Number int     `json:"n"`
	Tokens []Token `json:"t"`
}

func newHighlighter() (*highlighter, error) {
	h := &highlighter{lexers: map[string]chroma.Lexer{}}
	for _, name := range []string{"python", "bash", "javascript", "json"} {
		lexer, err := chroma.NewXMLLexer(lexerFiles, "lexers/"+name+".xml")
		if err != nil {
			return nil, fmt.Errorf("the lexer of %s: %w", name, err)
		}
		h.lexers[name] = lexer
	}
	h.lexers["typescript"] = h.lexers["javascript"]
	return h, nil
}

// The largest program that is coloured: a lexer takes about a microsecond a byte,
// and longer for texts that are made to be slow.
const maxColoured = 64 << 10

// lines are a program's. What no lexer reads is plain.
func (h *highlighter) lines(language, code string) []Line {
	lexer, ok := h.lexers[language]
	if !ok || len(code) > maxColoured {
		return plain(code)
	}
	it, err := lexer.Tokenise(&chroma.TokeniseOptions{State: "root"}, code)
	if err != nil {
		return plain(code)
	}
	lines := []Line{{Number: 1}}
	for token := it(); token != chroma.EOF; token = it() {
		for i, part := range strings.Split(token.Value, "\n") {
			if i > 0 {
				lines = append(lines, Line{Number: len(lines) + 1})
			}
			if part != "" {
				last := &lines[len(lines)-1]
				last.Tokens = append(last.Tokens, Token{kindOf(token.Type), part})
			}
		}
	}
	if !same(lines, code) { // a lexer that lost something
		return plain(code)
	}
	return trimmed(lines)
}

func kindOf(t chroma.TokenType) string {
	switch {
	case t.InCategory(chroma.Keyword), t == chroma.OperatorWord:
		return "k"
	case t.InSubCategory(chroma.LiteralString):
		return "s"
	case t.InSubCategory(chroma.LiteralNumber):
		return "n"
	case t.InCategory(chroma.Comment):
		return "c"
	}
	return ""
}

func same(lines []Line, code string) bool {
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, t := range l.Tokens {
			b.WriteString(t.Text)
		}
	}
	return b.String() == code
}

func plain(code string) []Line {
	var lines []Line
	for i, text := range strings.Split(code, "\n") {
		lines = append(lines, Line{Number: i + 1, Tokens: []Token{{Text: text}}})
	}
	return trimmed(lines)
}

// trimmed leaves out the empty line after the last end of a line.
func trimmed(lines []Line) []Line {
	if n := len(lines); n > 1 && (len(lines[n-1].Tokens) == 0 || lines[n-1].Tokens[0].Text == "" && len(lines[n-1].Tokens) == 1) {
		return lines[:n-1]
	}
	return lines
}

package read

import (
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/modules/knowledge/read/markup"
)

// SplitOptions bound passages, in characters. The zero value has the defaults.
type SplitOptions struct {
	// Max is the longest passage, 1600 by default, at least 100. Min is the
	// shortest that stands alone where it can be joined with what is before it in
	// its section; a fifth of Max by default.
	Max, Min int
}

// The bounds of passages by default: about 400 tokens, so that ten of them are a
// small part of what a model reads at once.
const (
	defaultMax = 1600
	smallest   = 100
	partOfMax  = 5
)

func (o SplitOptions) withDefaults() SplitOptions {
	if o.Max <= 0 {
		o.Max = defaultMax
	}
	o.Max = max(o.Max, smallest)
	if o.Min <= 0 {
		o.Min = o.Max / partOfMax
	}
	o.Min = min(o.Min, o.Max)
	return o
}

// Split makes passages of a document, in its order. A passage never spans two
// sections. Within one, it is divided between paragraphs, then between
// sentences; a code block is divided, between lines, only where it is longer than
// Max. Each part of a divided code block or table is one itself, with its
// fence, or with its header.
func Split(d Document, o SplitOptions) []Passage {
	o = o.withDefaults()
	var passages []Passage
	for _, s := range d.Sections {
		for _, text := range pack(s.Text, o) {
			passages = append(passages, Passage{Title: d.Title, Section: s.Title, Framework: d.Framework, Symbol: d.Symbol, Text: text})
		}
	}
	return passages
}

// pack puts as many blocks as fit into each piece.
func pack(text string, o SplitOptions) []string {
	var pieces []string
	piece, length := "", 0
	add := func(block string) {
		n := utf8.RuneCountInString(block)
		if length > 0 && length+2+n > o.Max {
			pieces = append(pieces, piece)
			piece, length = "", 0
		}
		if length > 0 {
			piece += "\n\n"
			length += 2
		}
		piece += block
		length += n
	}
	for _, b := range blocks(text) {
		for _, part := range b.divide(o.Max) {
			add(part)
		}
	}
	if last := len(pieces) - 1; last >= 0 && length < o.Min && utf8.RuneCountInString(pieces[last])+2+length <= o.Max {
		pieces[last] += "\n\n" + piece
		return pieces
	}
	if length > 0 {
		pieces = append(pieces, piece)
	}
	return pieces
}

// block is a paragraph, a list, a table or a code block.
type block struct {
	text  string
	fence string // of a code block
}

// blocks are those of some Markdown, in order. Blank lines within a code block
// do not end it.
func blocks(text string) []block {
	var (
		list  []block
		lines []string
		fence string
	)
	flush := func(fence string) {
		if joined := strings.Join(lines, "\n"); strings.TrimSpace(joined) != "" {
			list = append(list, block{strings.Trim(joined, "\n"), fence})
		}
		lines = lines[:0]
	}
	for line := range strings.SplitSeq(text, "\n") {
		next := markup.FenceAfter(fence, line)
		switch {
		case fence == "" && next != "":
			flush("")
			lines = append(lines, line)
		case fence != "" && next == "":
			lines = append(lines, line)
			flush(fence)
		case fence == "" && strings.TrimSpace(line) == "":
			flush("")
		default:
			lines = append(lines, line)
		}
		fence = next
	}
	flush(fence)
	return list
}

// divide is a block in parts of at most limit characters.
func (b block) divide(limit int) []string {
	switch {
	case utf8.RuneCountInString(b.text) <= limit:
		return []string{b.text}
	case b.fence != "":
		first, rest, _ := strings.Cut(b.text, "\n")
		end := strings.Repeat(b.fence[:1], len(b.fence))
		rest = strings.TrimSuffix(strings.TrimRight(rest, " \t\n"), end)
		return wrap(strings.Split(strings.TrimRight(rest, "\n"), "\n"), first, end, limit)
	case strings.HasPrefix(b.text, "|"):
		lines := strings.Split(b.text, "\n")
		if len(lines) > 2 && strings.HasPrefix(lines[1], "|") && strings.Trim(lines[1], "|-: ") == "" {
			return wrap(lines[2:], lines[0]+"\n"+lines[1], "", limit)
		}
		return wrap(lines, "", "", limit)
	}
	return divided(sentences(b.text), " ", limit)
}

// wrap puts lines into parts that each have the same first and last lines.
// Where these leave no room, lines stand alone.
func wrap(lines []string, before, after string, limit int) []string {
	room := limit - utf8.RuneCountInString(before) - utf8.RuneCountInString(after) - 2
	if room < limit/4 {
		return divided(lines, "\n", limit)
	}
	parts := divided(lines, "\n", room)
	for i, part := range parts {
		if before != "" {
			part = before + "\n" + part
		}
		if after != "" {
			part += "\n" + after
		}
		parts[i] = part
	}
	return parts
}

// divided joins pieces to parts of at most limit characters; a piece that is
// longer is cut where a word ends, or else anywhere.
func divided(pieces []string, by string, limit int) []string {
	var parts []string
	var part []string
	length := 0
	flush := func() {
		if joined := strings.Join(part, by); strings.TrimSpace(joined) != "" {
			parts = append(parts, strings.TrimRight(joined, " \n"))
		}
		part, length = part[:0], 0
	}
	for _, piece := range pieces {
		for _, cut := range cuts(piece, limit) {
			n := utf8.RuneCountInString(cut)
			if len(part) > 0 && length+len(by)+n > limit {
				flush()
			}
			if len(part) > 0 {
				length += len(by)
			}
			part = append(part, cut)
			length += n
		}
	}
	flush()
	return parts
}

// cuts is a text in pieces of at most limit characters, cut after words.
func cuts(s string, limit int) []string {
	if len(s) <= limit {
		return []string{s}
	}
	runes := []rune(s)
	var list []string
	for len(runes) > limit {
		end := limit
		for i := limit; i > limit/2; i-- {
			if runes[i-1] == ' ' {
				end = i
				break
			}
		}
		list = append(list, strings.TrimRight(string(runes[:end]), " "))
		runes = runes[end:]
	}
	return append(list, string(runes))
}

// sentences are those of a paragraph; lines of lists are kept apart.
func sentences(text string) []string {
	var list []string
	start := 0
	for i, r := range text {
		end := i + utf8.RuneLen(r)
		next, _ := utf8.DecodeRuneInString(text[end:])
		switch {
		case strings.ContainsRune("。！？", r):
		case strings.ContainsRune(".!?", r) && (next == ' ' || next == '\n'):
		case r == '\n' && listLine(text[end:]):
		default:
			continue
		}
		if s := strings.TrimRight(strings.TrimLeft(text[start:end], " "), " "); s != "" {
			list = append(list, s)
		}
		start = end
	}
	if s := strings.TrimLeft(text[start:], " "); s != "" {
		list = append(list, s)
	}
	return list
}

// listLine reports whether a text begins with an entry of a list.
func listLine(s string) bool {
	s = strings.TrimLeft(s, " ")
	if strings.HasPrefix(s, "- ") || strings.HasPrefix(s, "* ") || strings.HasPrefix(s, "+ ") {
		return true
	}
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	return digits > 0 && digits < 4 && (strings.HasPrefix(s[digits:], ". ") || strings.HasPrefix(s[digits:], ") "))
}

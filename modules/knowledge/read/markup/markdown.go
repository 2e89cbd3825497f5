package markup

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/strikethrough"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
)

// Write writes what is below a node as Markdown, with links relative to an
// address.
func Write(n *html.Node, page *url.URL) (string, error) {
	made := converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(
			commonmark.WithHorizontalRule("---"), commonmark.WithListEndComment(false),
			commonmark.WithLinkEmptyContentBehavior(commonmark.LinkBehaviorSkip), commonmark.WithLinkEmptyHrefBehavior(commonmark.LinkBehaviorSkip),
		),
		strikethrough.NewStrikethroughPlugin(),
		table.NewTablePlugin(
			table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal), table.WithHeaderPromotion(true), table.WithSkipEmptyRows(true),
			table.WithNewlineBehavior(table.NewlineBehaviorPreserve), table.WithSpanCellBehavior(table.SpanBehaviorEmpty),
		),
	))
	var options []converter.ConvertOptionFunc
	if page != nil {
		options = append(options, converter.WithDomain(page.String()))
	}
	text, err := made.ConvertNode(n, options...)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(visible(fixed(string(text)))), nil
}

// visible is a text without the characters that pages have only for how lines
// break.
func visible(s string) string {
	return strings.NewReplacer("\u200b", "", "\u00ad", "", "\ufeff", "", "\u00a0", " ").Replace(s)
}

var (
	task      = regexp.MustCompile(`^(\s*(?:[-*+]|\d+\.) )\\\[([x ])\] *`)
	lineBreak = regexp.MustCompile(` *<br */> *`)
)

// fixed writes tasks and the lines in cells of tables as most readers of
// Markdown know them.
func fixed(s string) string {
	var b strings.Builder
	fence := ""
	for line := range strings.Lines(s) {
		if fence = FenceAfter(fence, strings.TrimRight(line, "\n")); fence == "" {
			line = task.ReplaceAllString(line, "$1[$2] ")
			if strings.HasPrefix(line, "|") {
				line = lineBreak.ReplaceAllString(line, "<br>")
			}
			if strings.TrimSpace(line) == "" {
				line = "\n"
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

var fenceLine = regexp.MustCompile("^[ \t]{0,12}(?:[-*+>] +|\\d+[.)] +)*(`{3,}|~{3,})([^`]*)$")

// FenceAfter is the fence of the code block that is open after a line; empty
// outside of one.
func FenceAfter(open, line string) string {
	m := fenceLine.FindStringSubmatch(line)
	switch {
	case m == nil:
		return open
	case open == "":
		return m[1]
	case m[1][0] == open[0] && len(m[1]) >= len(open) && strings.TrimSpace(m[2]) == "":
		return ""
	}
	return open
}

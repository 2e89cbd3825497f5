package vendors

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Limits of Notion's.
const (
	maxChildren = 100  // blocks of one request
	maxRichText = 2000 // characters of one piece of text
)

// richText is plain text in Notion's form.
func richText(s string) []any {
	pieces := []any{}
	for piece := range slices.Chunk([]rune(s), maxRichText) {
		pieces = append(pieces, object{"type": "text", "text": object{"content": string(piece)}})
	}
	return pieces
}

// block is a block with text.
func block(kind, s string) any {
	return object{"object": "block", "type": kind, kind: object{"rich_text": richText(s)}}
}

// blocksOf reads a subset of Markdown: docs/wire/providers.md#notion-markdown.
func blocksOf(content string) []any {
	blocks := []any{}
	for line := range strings.Lines(content) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		kind := "paragraph"
		for prefix, of := range map[string]string{"# ": "heading_1", "## ": "heading_2", "- ": "bulleted_list_item"} {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				kind, line = of, rest
				break
			}
		}
		blocks = append(blocks, block(kind, line))
	}
	return blocks
}

// appendAll adds blocks at the end of a page or block, as many requests as that
// takes. It returns how many are there.
func (s notionCall) appendAll(id string, blocks []any) (written int, err error) {
	for some := range slices.Chunk(blocks, maxChildren) {
		if _, err := s.send(http.MethodPatch, at("blocks", id, "children"), object{"children": some}); err != nil {
			return written, err
		}
		written += len(some)
	}
	return written, nil
}

func (s notionCall) appendBlock(in notionInput) (object, error) {
	blocks := blocksOf(in.Content)
	if len(blocks) == 0 {
		return nil, refuse("content: is empty")
	}
	_, err := s.appendAll(in.ParentID, blocks)
	return answer("Blocks appended.", err, "blocks", len(blocks))
}

func (s notionCall) retrieveBlock(in notionInput) (object, error) {
	got, err := s.get(at("blocks", in.BlockID))
	return answer("Block retrieved.", err, "block", got)
}

func (s notionCall) updateBlock(in notionInput) (object, error) {
	if in.Type == "" {
		in.Type = "paragraph"
	}
	got, err := s.send(http.MethodPatch, at("blocks", in.BlockID), object{in.Type: object{"rich_text": richText(in.Content)}})
	return answer("Block updated.", err, "block", got)
}

func (s notionCall) deleteBlock(in notionInput) (object, error) {
	got, err := s.send(http.MethodDelete, at("blocks", in.BlockID), nil)
	return answer("Block deleted.", err, "block", got)
}

// children lists the blocks below a page or block.
func (s notionCall) children(id string) ([]any, error) {
	var all []any
	for cursor := ""; ; {
		query := url.Values{"page_size": {"100"}}
		if cursor != "" {
			query.Set("start_cursor", cursor)
		}
		got, err := s.get(at("blocks", id, "children") + "?" + query.Encode())
		if err != nil {
			return nil, err
		}
		results, _ := got["results"].([]any)
		all = append(all, results...)
		next, _ := got["next_cursor"].(string)
		if next == "" || next == cursor || len(all) > maxCopied {
			return all, nil
		}
		cursor = next
	}
}

// copyBlocks reads blocks as they are given to make them anew. What only Notion
// can make, such as a child page, is left out.
func (s notionCall) copyBlocks(id string, depth int, left *int) ([]any, error) {
	all, err := s.children(id)
	if err != nil {
		return nil, err
	}
	var blocks []any
	for _, b := range all {
		was, _ := b.(object)
		kind, _ := was["type"].(string)
		content, ok := was[kind].(object)
		if !ok || slices.Contains([]string{"child_page", "child_database", "unsupported", "link_preview", "file", "image", "video", "audio", "pdf"}, kind) {
			continue
		}
		if *left--; *left < 0 {
			return nil, refuse("the page has more than %d blocks, too many for a copy", maxCopied)
		}
		if was["has_children"] == true && depth < maxCopyDepth {
			wasID, _ := was["id"].(string)
			below, err := s.copyBlocks(wasID, depth+1, left)
			if err != nil {
				return nil, err
			}
			if len(below) > maxChildren {
				return nil, refuse("a block of the page has %d blocks below it; a copy can have %d, and nothing was made", len(below), maxChildren)
			}
			if len(below) > 0 {
				content["children"] = below
			}
		}
		blocks = append(blocks, object{"object": "block", "type": kind, kind: content})
	}
	return blocks, nil
}

package history

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/anthropic/files"
	"github.com/portico-run/portico/modules/agent/anthropic/search"
	"github.com/portico-run/portico/modules/agent/anthropic/wire"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/model/content"
)

// source is where the content of an image or a document is.
type source struct {
	Type      string          `json:"type"`
	MediaType string          `json:"media_type"`
	Data      string          `json:"data"`
	URL       string          `json:"url"`
	FileID    string          `json:"file_id"`
	Content   json.RawMessage `json:"content"`
}

// maxInline is the largest file, in bytes, that a model is sent, and maxInlined how many
// bytes the files of a request may have together.
const (
	maxInline  = 10 << 20
	maxInlined = 32 << 20
)

// parts are blocks as parts of a message of the user's, or of a result.
func (h *history) parts(ctx context.Context, blocks []block) ([]model.Part, error) {
	var parts []model.Part
	for _, b := range blocks {
		some, err := h.part(ctx, b)
		if err != nil {
			return nil, err
		}
		parts = append(parts, some...)
	}
	return parts, nil
}

func (h *history) part(ctx context.Context, b block) ([]model.Part, error) {
	switch b.Type {
	case "text":
		return words(b.Text), nil
	case "image":
		p, err := h.source(ctx, b, content.Image)
		return []model.Part{p}, err
	case "document":
		return h.document(ctx, b)
	case "search_result":
		var address string
		if json.Unmarshal(b.Source, &address) != nil {
			return nil, wire.Invalid(b.at+".source", "Input should be a text")
		}
		all, err := wire.Texts(b.at+".content", b.Content)
		return words(fmt.Sprintf("%s\n%s\n\n%s", b.Title, address, strings.Join(all, "\n"))), err
	case "tool_reference":
		h.Loads = append(h.Loads, b.ToolName)
		return words(search.Text([]string{b.ToolName})), nil
	}
	return nil, wire.Invalid(b.at+".type", "Input tag '%s' is not one that this server reads here", b.Type)
}

func words(text string) []model.Part {
	return []model.Part{{Type: content.Text, Text: text}}
}

// lines are texts, each on a line of its own, without those that are empty.
func lines(texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		if text != "" {
			b.WriteString(text + "\n")
		}
	}
	return b.String()
}

// document reads a document: its text where it is one, and else the file.
func (h *history) document(ctx context.Context, b block) ([]model.Part, error) {
	head := lines(b.Title, b.Context)
	var s source
	_ = json.Unmarshal(b.Source, &s) // what is missing is refused below
	switch s.Type {
	case "text":
		return words(head + s.Data), nil
	case "content":
		inner, err := blocksOf(b.at+".source.content", s.Content)
		if err != nil {
			return nil, err
		}
		for i := range inner {
			if inner[i].Type != "text" && inner[i].Type != "image" {
				return nil, wire.Invalid(inner[i].at+".type", "Input should be 'text' or 'image'")
			}
		}
		parts, err := h.parts(ctx, inner)
		if head != "" {
			parts = append(words(head), parts...)
		}
		return parts, err
	}
	p, err := h.source(ctx, b, content.File)
	p.Name = cmp.Or(b.Title, p.Name)
	if b.Context != "" {
		return append(words(b.Context), p), err
	}
	return []model.Part{p}, err
}

// source reads where an image or a file is.
func (h *history) source(ctx context.Context, b block, kind content.Type) (model.Part, error) {
	var s source
	if json.Unmarshal(b.Source, &s) != nil {
		return model.Part{}, wire.Invalid(b.at+".source", "Input should be an object")
	}
	p := model.Part{Type: kind}
	switch s.Type {
	case "base64":
		if s.MediaType == "" || s.Data == "" {
			return p, wire.Invalid(b.at+".source", "media_type and data: Field required")
		}
		if kind == content.Image && !strings.HasPrefix(s.MediaType, "image/") {
			return p, wire.Invalid(b.at+".source.media_type", "Input should be that of an image")
		}
		p.URL = "data:" + s.MediaType + ";base64," + s.Data
	case "url":
		if !strings.HasPrefix(s.URL, "https://") {
			return p, wire.Invalid(b.at+".source.url", "Input should be an address with https")
		}
		p.URL = s.URL
	case "file":
		return h.load(ctx, b.at+".source.file_id", s.FileID, kind)
	default:
		return p, wire.Invalid(b.at+".source.type", "Input should be 'base64', 'url' or 'file'")
	}
	return p, nil
}

// load reads a file of a session for the model.
func (h *history) load(ctx context.Context, parameter, id string, kind content.Type) (model.Part, error) {
	p := model.Part{Type: kind}
	session, file, ok := files.ParseID(id)
	if !ok {
		return p, missing(parameter, id)
	}
	f, body, err := h.reader.Files.Open(ctx, h.who, session, file)
	if errs.CodeOf(err) == errs.NotFound {
		return p, missing(parameter, id)
	}
	if err != nil {
		return p, err
	}
	defer func() { _ = body.Close() }() // it was only read
	if kind == content.Image && !strings.HasPrefix(f.ContentType, "image/") {
		return p, wire.Invalid(parameter, "the file is no image")
	}
	h.inlined += f.Size
	if f.Size > maxInline || h.inlined > maxInlined {
		return p, errs.Newf(errs.TooLarge, "%s: a file for the model may have %d bytes, and all of a request %d.", parameter, maxInline, maxInlined)
	}
	data, err := io.ReadAll(io.LimitReader(body, f.Size))
	if err != nil {
		return p, err
	}
	if kind == content.File && strings.HasPrefix(f.ContentType, "text/") {
		return model.Part{Type: content.Text, Text: f.Name + "\n" + strings.ToValidUTF8(string(data), "\uFFFD")}, nil
	}
	media, _, _ := strings.Cut(f.ContentType, ";")
	p.URL, p.Name = "data:"+media+";base64,"+base64.StdEncoding.EncodeToString(data), f.Name
	return p, nil
}

func missing(parameter, id string) error {
	return errs.Newf(errs.NotFound, "%s: File not found: %s", parameter, id)
}

// simple is the text of parts that are nothing but text.
func simple(parts []model.Part) (text string, ok bool) {
	var b strings.Builder
	for i, p := range parts {
		if p.Type != content.Text {
			return "", false
		}
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(p.Text)
	}
	return b.String(), true
}

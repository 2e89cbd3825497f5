package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/mcp/wire"
	"github.com/portico-run/portico/modules/tool/resource"
)

// Answer is what a tool returned.
type Answer struct {
	// Data is its value as JSON: what is structured, else the value of its one
	// text if that is JSON, else its texts; empty where it returned files only.
	Data json.RawMessage
	// Structured says that Data is what the tool's output schema describes.
	Structured bool
	// Files are images, sounds and resources.
	Files []resource.File

	text  string
	links []*mcp.ResourceLink
}

// read takes a result apart. size is what its parts have in bytes, about.
func read(got *mcp.CallToolResult) (out Answer, size int, err error) {
	var texts []string
	for _, part := range got.Content {
		switch part := part.(type) {
		case *mcp.TextContent:
			texts = append(texts, part.Text)
			size += len(part.Text)
		case *mcp.ImageContent:
			out.Files = append(out.Files, resource.File{Type: part.MIMEType, Content: part.Data})
			size += len(part.Data)
		case *mcp.AudioContent:
			out.Files = append(out.Files, resource.File{Type: part.MIMEType, Content: part.Data})
			size += len(part.Data)
		case *mcp.EmbeddedResource:
			f := fileOf(part.Resource)
			out.Files = append(out.Files, f)
			size += len(f.Content)
		case *mcp.ResourceLink:
			out.links = append(out.links, part)
		default:
			return out, size, fmt.Errorf("it has content of the type %T", part)
		}
	}
	out.text = strings.Join(texts, "\n")
	if got.StructuredContent != nil {
		raw, ok := got.StructuredContent.(string)
		if !ok || !json.Valid([]byte(raw)) {
			return out, size, errors.New("its structuredContent is not JSON")
		}
		out.Data, out.Structured = compact(raw), true
		return out, size + len(raw), nil
	}
	switch {
	case len(texts) == 1 && json.Valid([]byte(out.text)):
		out.Data = compact(out.text)
	case len(texts) > 0:
		out.Data, err = wire.Quote([]byte(out.text))
	}
	return out, size, err
}

func compact(raw string) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, []byte(raw)) != nil {
		return json.RawMessage(raw)
	}
	return b.Bytes()
}

// fileOf is the content of a resource. Its name is the end of its URI.
func fileOf(r *mcp.ResourceContents) resource.File {
	if r == nil {
		return resource.File{}
	}
	f := resource.File{Name: baseName(r.URI), Type: r.MIMEType, Content: r.Blob}
	if r.Blob == nil {
		f.Content = []byte(r.Text)
		if f.Type == "" {
			f.Type = "text/plain; charset=utf-8"
		}
	}
	return f
}

func baseName(uri string) string {
	uri, _, _ = strings.Cut(uri, "?")
	if base := path.Base(uri); path.Ext(base) != "" {
		return base
	}
	return ""
}

// maxLinks bounds how many resources one answer may refer to.
const maxLinks = 20

// resolve fetches the resources that an answer refers to. One that cannot be read
// is told by its address. A server that is silent for one is asked for no other.
func (s *session) resolve(ctx context.Context, out *Answer, limit int64, most time.Duration) {
	var left []string
	silent := false
	for i, link := range out.links {
		if i >= maxLinks || silent {
			left = append(left, link.URI)
			continue
		}
		within, cancel := context.WithTimeout(ctx, most)
		got, err := s.ReadResource(within, &mcp.ReadResourceParams{URI: link.URI})
		silent = within.Err() != nil
		cancel()
		if err != nil || got.NeedsInput() || len(got.Contents) == 0 {
			left = append(left, link.URI)
			continue
		}
		for _, c := range got.Contents {
			f := fileOf(c)
			if link.Name != "" && path.Ext(link.Name) != "" {
				f.Name = link.Name
			}
			if limit -= int64(len(f.Content)); limit < 0 {
				left = append(left, link.URI)
				break
			}
			out.Files = append(out.Files, f)
		}
	}
	if len(left) > 0 && !out.Structured {
		out.text = strings.TrimSpace(out.text + "\nResources that were not fetched: " + strings.Join(left, " "))
		out.Data, _ = wire.Quote([]byte(out.text)) // texts always have a JSON form
	}
}

// redact takes secrets out of the data, and of files that can be read as text.
func (out *Answer) redact(s upstream.Secrets) {
	out.Data = s.Redact(out.Data)
	for i, f := range out.Files {
		if utf8.Valid(f.Content) {
			out.Files[i].Content = s.Redact(f.Content)
		}
	}
}

// failure is an answer that says that the tool did not do its work.
func (out Answer) failure(s upstream.Secrets) *upstream.Failure {
	f := &upstream.Failure{Code: CodeTool, Message: upstream.Limit(string(s.Redact([]byte(out.text))), maxToolError)}
	if f.Message == "" {
		f.Message = "The tool failed and did not say why."
	}
	if out.Structured {
		f.Data = out.Data
	}
	return f
}

// maxToolError is how much of a tool's own words about its failure is kept, in
// bytes.
const maxToolError = 8 << 10

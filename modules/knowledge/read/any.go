package read

import (
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// Any reads every kind of source but pages of DocC archives, which look like
// any other JSON.
type Any struct{ Office Office }

// Types of documents.
const (
	typeHTML     = "text/html"
	typeMarkdown = "text/markdown"
	typeText     = "text/plain"
	typePDF      = "application/pdf"
	typeDocx     = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
)

// Read implements Reader.
func (a Any) Read(ctx context.Context, s Source) (Document, error) {
	kind := TypeOf(s.Name, s.MIME)
	if kind == "" {
		var err error
		if kind, err = sniffed(s); err != nil {
			return Document{}, err
		}
	}
	switch kind {
	case typeHTML, "application/xhtml+xml":
		return HTML{}.Read(ctx, s)
	case typeMarkdown:
		return Markdown{}.Read(ctx, s)
	case typePDF, typeDocx:
		return a.Office.Read(ctx, s)
	case "application/msword":
		return Document{}, ErrType.Do("It is a Word file in the format of before 2007. Save it as .docx.")
	}
	if textual(kind) {
		return Text{}.Read(ctx, s)
	}
	return Document{}, ErrType.Do("Its type is " + kind + ". What can be read: HTML, Markdown, plain text, PDF and Word (.docx).")
}

// TypeOf is the media type of a document: the declared one where it says
// anything, else that of the name; empty where neither does.
func TypeOf(name, declared string) string {
	kind, _, err := mime.ParseMediaType(declared)
	if err == nil && kind != "application/octet-stream" && kind != "binary/octet-stream" && kind != typeText {
		return kind
	}
	if u, err := url.Parse(name); err == nil && u.Scheme != "" && u.Path != "" {
		name = u.Path
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".html", ".htm", ".xhtml":
		return typeHTML
	case ".md", ".markdown", ".mdown", ".mkd", ".mdx":
		return typeMarkdown
	case ".txt", ".text", ".log", ".rst", ".adoc", ".asciidoc", ".org", ".tex", ".csv", ".tsv", ".json", ".yaml", ".yml", ".toml", ".xml":
		return typeText
	case ".pdf":
		return typePDF
	case ".docx":
		return typeDocx
	case ".doc":
		return "application/msword"
	}
	if kind == typeText {
		return kind
	}
	return ""
}

// textual reports whether what has a media type is text.
func textual(kind string) bool {
	if strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") {
		return kind != "image/svg+xml"
	}
	switch kind {
	case "application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/x-ndjson", "application/javascript":
		return true
	}
	return false
}

// sniffed is the type of a source by its first bytes.
func sniffed(s Source) (string, error) {
	r, err := s.Open()
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }() // it was only read
	head, err := io.ReadAll(io.LimitReader(r, sniff))
	kind, _, _ := strings.Cut(http.DetectContentType(head), ";")
	if kind == "application/zip" {
		kind = typeDocx // the reader looks what is in it
	}
	return kind, err
}

// sniff is how many first bytes tell the type.
const sniff = 512

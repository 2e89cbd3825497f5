package content

import (
	"encoding/base64"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/errs"
)

// The forms of parts in Chat Completions: docs/wire/models.md#content.
type (
	chatText struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	chatImage struct {
		Type  string `json:"type"`
		Image struct {
			URL    string `json:"url"`
			Detail string `json:"detail,omitempty"`
		} `json:"image_url"`
	}
	chatFile struct {
		Type string `json:"type"`
		File struct {
			Name string `json:"filename,omitempty"`
			Data string `json:"file_data"`
		} `json:"file"`
	}
)

// Chat are parts as Chat Completions has them.
func Chat(parts []Part) ([]any, error) {
	out := make([]any, 0, len(parts))
	for _, p := range parts {
		switch p.Type {
		case Image:
			image := chatImage{Type: "image_url"}
			image.Image.URL, image.Image.Detail = p.URL, p.Detail
			out = append(out, image)
		case File:
			if !strings.HasPrefix(p.URL, "data:") {
				return nil, errs.New(errs.Invalid, "The model's protocol takes no files by their URL.").Do("Send the file as file_data.")
			}
			file := chatFile{Type: "file"}
			file.File.Name, file.File.Data = p.Name, p.URL
			out = append(out, file)
		default:
			out = append(out, chatText{"text", p.Text})
		}
	}
	return out, nil
}

// The forms of parts in Messages: docs/wire/models.md#content.
type (
	// Block is one part of a message.
	Block struct {
		Type   string  `json:"type"`
		Text   string  `json:"text,omitempty"`
		Source *source `json:"source,omitempty"`
		Title  string  `json:"title,omitempty"`
		// Cache lets the provider keep what comes before.
		Cache any `json:"cache_control,omitempty"`
	}
	source struct {
		Type  string `json:"type"`
		Media string `json:"media_type,omitempty"`
		Data  string `json:"data,omitempty"`
		URL   string `json:"url,omitempty"`
	}
)

// Messages are parts as Anthropic's Messages has them. Texts without a word, which it
// refuses, are left out.
func Messages(parts []Part) ([]*Block, error) {
	out := make([]*Block, 0, len(parts))
	for _, p := range parts {
		b := &Block{Type: "text", Text: p.Text}
		var err error
		switch p.Type {
		case Image:
			b.Type = "image"
			b.Source, err = sourceOf(p.URL)
		case File:
			b.Type, b.Title = "document", p.Name
			if b.Source, err = sourceOf(p.URL); err == nil {
				err = b.Source.document()
			}
		default:
			if strings.TrimSpace(p.Text) == "" {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// sourceOf says where an image or a document is.
func sourceOf(address string) (*source, error) {
	rest, isData := strings.CutPrefix(address, "data:")
	if !isData {
		return &source{Type: "url", URL: address}, nil
	}
	head, data, found := strings.Cut(rest, ",")
	media, _, _ := strings.Cut(head, ";")
	switch {
	case !found || media == "" || data == "":
		return nil, errs.New(errs.Invalid, "A data: URL has no media type, or no data.").Do("It looks like data:image/png;base64,….")
	case strings.HasSuffix(head, ";base64"):
		return &source{Type: "base64", Media: strings.ToLower(media), Data: data}, nil
	}
	text, err := url.PathUnescape(data)
	if err != nil {
		return nil, errs.New(errs.Invalid, "The data of a data: URL cannot be read.").Do("Send it as base64.")
	}
	return &source{Type: "base64", Media: strings.ToLower(media), Data: base64.StdEncoding.EncodeToString([]byte(text))}, nil
}

// document makes of a source what a document may have: a PDF or a text.
func (s *source) document() error {
	switch {
	case s.Type == "url", s.Media == "application/pdf":
		return nil
	case !strings.HasPrefix(s.Media, "text/"):
		return errs.Newf(errs.Invalid, "The model's protocol takes no files of type %s.", s.Media).Do("It takes PDF and texts.")
	}
	text, err := base64.StdEncoding.DecodeString(s.Data)
	if err != nil || !utf8.Valid(text) || strings.TrimSpace(string(text)) == "" {
		return errs.New(errs.Invalid, "A file of text is not base64 of UTF-8, or is empty.")
	}
	*s = source{Type: "text", Media: "text/plain", Data: string(text)}
	return nil
}

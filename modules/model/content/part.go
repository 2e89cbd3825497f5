// Package content is what messages and results of tools are made of beside texts:
// images and files. Conversations hold their parts as OpenAI's Responses API has them;
// here they become what the other protocols have. What a protocol cannot carry is an
// error, so that nothing is left out silently.
package content

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/portico-run/portico/internal/errs"
)

// Part is one piece of a message of the user's, or of what a tool returned.
type Part struct {
	Type Type
	Text string // of a Text
	// URL is where an image or a file is: an https: or a data: URL.
	URL string
	// Detail is how closely an image is looked at: low, high or auto; empty leaves it
	// to the provider. The Messages protocol does not know it.
	Detail string
	Name   string // of a file; it may be empty
}

// Type says what a part is.
type Type string

// The types of parts.
const (
	Text  Type = "input_text"
	Image Type = "input_image"
	File  Type = "input_file"
)

// raw is a part as a conversation holds it.
type raw struct {
	Type     Type            `json:"type"`
	Text     *string         `json:"text,omitempty"`
	Refusal  string          `json:"refusal,omitempty"`
	ImageURL json.RawMessage `json:"image_url,omitempty"`
	Detail   string          `json:"detail,omitempty"`
	FileData string          `json:"file_data,omitempty"`
	FileURL  string          `json:"file_url,omitempty"`
	FileID   string          `json:"file_id,omitempty"`
	Filename string          `json:"filename,omitempty"`
}

// MarshalJSON implements json.Marshaler: the part as a conversation holds it.
func (p Part) MarshalJSON() ([]byte, error) {
	r := raw{Type: p.Type}
	switch {
	case p.Type == Text:
		r.Text = &p.Text
	case p.Type == Image:
		url, err := json.Marshal(p.URL)
		if err != nil {
			return nil, err
		}
		r.ImageURL, r.Detail = url, p.Detail
	case strings.HasPrefix(p.URL, "data:"):
		r.FileData, r.Filename = p.URL, p.Name
	default:
		r.FileURL, r.Filename = p.URL, p.Name
	}
	return json.Marshal(r)
}

// Read reads the content of a message or of a result of a tool: a text, or a list of
// parts. An error is an *errs.Error that says which part cannot be read.
func Read(content json.RawMessage) ([]Part, error) {
	var text string
	if trimmed := bytes.TrimSpace(content); len(trimmed) > 0 && trimmed[0] == '"' && json.Unmarshal(content, &text) == nil {
		return []Part{{Type: Text, Text: text}}, nil
	}
	var list []raw
	if err := json.Unmarshal(content, &list); err != nil || list == nil {
		return nil, errs.New(errs.Invalid, "The content of a message or a result is neither a text nor a list of parts.").
			Do(`A part is {"type":"input_text","text":…}, {"type":"input_image","image_url":…} or {"type":"input_file","file_data":…}.`)
	}
	if len(list) == 0 {
		return nil, errs.New(errs.Invalid, "The content of a message or a result is an empty list.").Do("Give it a part, or a text, which may be empty.")
	}
	parts := make([]Part, len(list))
	for i, r := range list {
		p, err := r.part()
		if err != nil {
			return nil, errs.Newf(errs.Invalid, "Part %d of a message or a result %s.", i+1, err.Error())
		}
		parts[i] = p
	}
	return parts, nil
}

// part checks a part. Files by the id that a provider gave them are refused: the
// provider holds those of everybody under one key.
func (r raw) part() (Part, error) {
	switch r.Type {
	case Text, "text", "output_text":
		if r.Text == nil {
			return Part{}, fmt.Errorf("has no text")
		}
		return Part{Type: Text, Text: *r.Text}, nil
	case "refusal":
		return Part{Type: Text, Text: r.Refusal}, nil
	case Image:
		var url string
		if r.FileID != "" {
			return Part{}, fmt.Errorf("names an image by file_id; send it as image_url")
		}
		if json.Unmarshal(r.ImageURL, &url) != nil || !known(url) {
			return Part{}, fmt.Errorf("has an image_url that is neither an https: nor a data: URL")
		}
		return Part{Type: Image, URL: url, Detail: r.Detail}, nil
	case File:
		switch {
		case r.FileID != "":
			return Part{}, fmt.Errorf("names a file by file_id; send it as file_data or file_url")
		case (r.FileData == "") == (r.FileURL == ""):
			return Part{}, fmt.Errorf("must have one of file_data and file_url")
		case r.FileData != "" && !strings.HasPrefix(r.FileData, "data:"):
			return Part{}, fmt.Errorf("has file_data that is not a data: URL")
		case r.FileURL != "" && !strings.HasPrefix(r.FileURL, "https://"):
			return Part{}, fmt.Errorf("has a file_url that is not an https: URL")
		}
		return Part{Type: File, URL: r.FileData + r.FileURL, Name: r.Filename}, nil
	case "":
		return Part{}, fmt.Errorf("has no type")
	}
	return Part{}, fmt.Errorf("has the type %q, which is not known", r.Type)
}

func known(url string) bool {
	return strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "data:")
}

// Words are the texts of parts, joined. plain is false where there is more than texts.
func Words(parts []Part) (text string, plain bool) {
	var all strings.Builder
	plain = true
	for _, p := range parts {
		all.WriteString(p.Text)
		plain = plain && p.Type == Text
	}
	return all.String(), plain
}

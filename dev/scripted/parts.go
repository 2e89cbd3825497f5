package scripted

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// part is one piece of a content, in any protocol.
type part struct {
	Type     string          `json:"type"`
	Text     *string         `json:"text"`
	Image    json.RawMessage `json:"image_url"`
	FileData string          `json:"file_data"`
	FileURL  string          `json:"file_url"`
	File     *struct {
		Data string `json:"file_data"`
	} `json:"file"`
	Source *struct {
		Type  string `json:"type"`
		Media string `json:"media_type"`
		Data  string `json:"data"`
		URL   string `json:"url"`
	} `json:"source"`
}

// partsOf reads a content of parts; none for one that is a text, or nothing.
func partsOf(where string, content json.RawMessage) ([]part, error) {
	var text string
	if len(content) == 0 || string(content) == "null" || json.Unmarshal(content, &text) == nil {
		return nil, nil
	}
	var parts []part
	if json.Unmarshal(content, &parts) != nil {
		return nil, refuseText("Invalid type for '%s': expected a string or an array of parts.", where)
	}
	return parts, nil
}

// checkParts refuses parts of types that cannot stand in a place, and those that are
// not whole.
func checkParts(where string, content json.RawMessage, types ...string) error {
	parts, err := partsOf(where, content)
	if err != nil {
		return err
	}
	for i, p := range parts {
		if !slices.Contains(types, p.Type) {
			return refuseText("Invalid value: '%s' at '%s[%d]'. Supported values are: %q.", p.Type, where, i, types)
		}
		if why := p.wrong(); why != "" {
			return refuseText("Invalid '%s[%d]': %s", where, i, why)
		}
	}
	return nil
}

// wrong says what is wrong with a part; empty where nothing is.
func (p part) wrong() string {
	switch p.Type {
	case "text", "input_text", "output_text":
		if p.Text == nil {
			return "text is required"
		}
	case "input_image":
		var url string
		_ = json.Unmarshal(p.Image, &url) // what is no text is no URL
		return imageURL(url)
	case "image_url":
		var image struct {
			URL string `json:"url"`
		}
		_ = json.Unmarshal(p.Image, &image) // as above
		return imageURL(image.URL)
	case "input_file":
		if (p.FileData == "") == (p.FileURL == "") {
			return "one of file_data and file_url is required"
		}
	case "file":
		if p.File == nil || p.File.Data == "" {
			return "file.file_data is required"
		}
	case "image", "document":
		return p.source()
	}
	return ""
}

func imageURL(url string) string {
	if strings.HasPrefix(url, "https://") {
		return ""
	}
	head, data, found := strings.Cut(url, ";base64,")
	if !found || !strings.HasPrefix(head, "data:image/") {
		return "the image is neither an https nor a data URL"
	}
	return picture(strings.TrimPrefix(head, "data:"), data)
}

// picture says what is wrong with the data of an image.
func picture(media, data string) string {
	raw, err := base64.StdEncoding.DecodeString(data)
	if is := http.DetectContentType(raw); err != nil || is != media {
		return "The image data you provided does not represent a valid image. It is " + is + ", not " + media + "."
	}
	return ""
}

func (p part) source() string {
	s := p.Source
	switch {
	case s == nil:
		return "source: Field required"
	case s.Type == "url" && strings.HasPrefix(s.URL, "https://"):
		return ""
	case p.Type == "image" && s.Type == "base64":
		return picture(s.Media, s.Data)
	case p.Type == "document" && s.Type == "text" && s.Media == "text/plain" && s.Data != "":
		return ""
	case p.Type == "document" && s.Type == "base64" && s.Media == "application/pdf":
		if raw, err := base64.StdEncoding.DecodeString(s.Data); err == nil && strings.HasPrefix(string(raw), "%PDF-") {
			return ""
		}
		return "The PDF specified was not valid."
	}
	return "source: Input does not match any of the expected sources"
}

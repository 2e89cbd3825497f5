package composio

import (
	"bytes"
	"encoding/json"
	"regexp"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

// uploadable marks parameters of the service that take a file.
const uploadable = "file_uploadable"

// Schema is the schema of a tool's parameters as callers see it: where the
// service takes a stored file, they give a file of theirs, or a public URL.
func (t Tool) Schema() (json.RawMessage, error) {
	if len(t.Input) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	if !bytes.Contains(t.Input, []byte(uploadable)) {
		return t.Input, nil
	}
	tree, err := jsontree.Parse(t.Input)
	if err != nil {
		return nil, err
	}
	return jsontree.Encode(withFiles(tree))
}

// Result is the schema of what a call returns to callers, if the service says:
// the data of the service's answer, without the members about its success.
func (t Tool) Result() json.RawMessage {
	tree, err := jsontree.Parse(t.Output)
	answer, _ := tree.(*jsontree.Object)
	if err != nil || answer == nil {
		return nil
	}
	properties := answer.Object("properties")
	if properties == nil || !properties.Has("data") || !properties.Has("successful") {
		return nil
	}
	data := properties.Object("data")
	if data == nil || data.Len() == 0 {
		return nil
	}
	for _, word := range []string{"$defs", "definitions"} { // what its references mean
		if defs := answer.Object(word); defs != nil && !data.Has(word) {
			data.Set(word, defs)
		}
	}
	text, err := jsontree.Encode(data)
	if err != nil {
		return nil
	}
	return text
}

// withFiles replaces the schemas of files, at any depth.
func withFiles(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withFiles(v[i])
		}
	case *jsontree.Object:
		if v.Get(uploadable) == true {
			return fileSchema(v)
		}
		for _, name := range v.Names() {
			v.Set(name, withFiles(v.Get(name)))
		}
	}
	return v
}

func fileSchema(was *jsontree.Object) *jsontree.Object {
	s := jsontree.NewObject()
	s.Set("type", "string")
	if title := was.String("title"); title != "" {
		s.Set("title", title)
	}
	text := "A drive file (df-…) or a public URL."
	if before := was.String("description"); before != "" {
		text = before + " " + text
	}
	s.Set("description", text)
	s.Set("isResource", true)
	s.Set("format", "file")
	s.Set(uploadable, true)
	return s
}

var deprecated = regexp.MustCompile(`(?i)deprecated`)

// Exported reports whether code is generated for a tool: not for one that is
// deprecated, or has a parameter that is. See docs/wire/refly.md#definitions.
func (t Tool) Exported() bool {
	if t.Slug == "" || t.Deprecated || deprecated.MatchString(t.Description) {
		return false
	}
	var s struct {
		Properties map[string]struct {
			Deprecated bool `json:"deprecated"`
		} `json:"properties"`
	}
	if len(t.Input) > 0 && json.Unmarshal(t.Input, &s) != nil {
		return false
	}
	for _, p := range s.Properties {
		if p.Deprecated {
			return false
		}
	}
	return true
}

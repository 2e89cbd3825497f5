package toolset

import "slices"

// The parts of a request that an argument may go into. In the body it is a
// field of a form or a member of a JSON object.
const (
	InPath   = "path"
	InQuery  = "query"
	InHeader = "header"
	InCookie = "cookie"
	InBody   = "body"
)

// When a body is sent.
const (
	BodyNone     = "none"     // never
	BodyOptional = "optional" // where there is an argument for it
)

// Parameter says where an argument goes and how it is written there. Style and
// Explode are those of OpenAPI 3.
type Parameter struct {
	// In is one of the parts of a request.
	In string `json:"in" yaml:"in"`
	// Name is what it is called there; empty for the name of the argument.
	Name string `json:"name,omitempty" yaml:"name"`
	// Style is how lists and objects are written; empty for the usual one of the
	// part. In a body only a form that has one has a style.
	Style string `json:"style,omitempty" yaml:"style"`
	// Explode writes each item and each member as a value of its own; nil for what
	// is usual with the style.
	Explode *bool `json:"explode,omitempty" yaml:"explode"`
	// AllowReserved leaves characters of URLs in a query as they are.
	AllowReserved bool `json:"allowReserved,omitempty" yaml:"allowReserved"`
	// ContentType writes the value in this media type, such as JSON, in place of a
	// style. In multipart/form-data it is also told.
	ContentType string `json:"contentType,omitempty" yaml:"contentType"`
}

// styles are those of each part of a request, the usual one first.
func styles(in string) []string {
	switch in {
	case InPath:
		return []string{"simple", "label", "matrix"}
	case InHeader:
		return []string{"simple"}
	case InCookie:
		return []string{"form"}
	}
	return []string{"form", "spaceDelimited", "pipeDelimited", "deepObject"}
}

// DefaultStyle is the usual style of a part of a request.
func DefaultStyle(in string) string { return styles(in)[0] }

// KnowsStyle reports whether a part of a request has a style.
func KnowsStyle(in, style string) bool { return slices.Contains(styles(in), style) }

// DefaultExplode is what Explode usually is with a style.
func DefaultExplode(style string) bool { return style == "form" || style == "deepObject" }

// Exploded reports whether each item is a value of its own.
func (p Parameter) Exploded() bool {
	if p.Explode != nil {
		return *p.Explode
	}
	return DefaultExplode(p.Written())
}

// Written is the style in which the value is written.
func (p Parameter) Written() string {
	if p.Style == "" {
		return DefaultStyle(p.In)
	}
	return p.Style
}

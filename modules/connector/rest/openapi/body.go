package openapi

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/shared"
	"github.com/portico-run/portico/modules/toolset"
)

const (
	typeJSON      = "application/json"
	typeForm      = "application/x-www-form-urlencoded"
	typeMultipart = "multipart/form-data"
	// bodyName is the argument that is a whole body, where that is no object.
	bodyName = "body"
)

// kindOf picks the media type of a body: the first of these that there is.
func kindOf(content node) string {
	kinds := slices.Sorted(maps.Keys(content.value))
	for _, match := range []func(kind string) bool{
		func(kind string) bool { return mediaType(kind) == typeJSON },
		isJSON,
		func(kind string) bool { return mediaType(kind) == typeMultipart },
		func(kind string) bool { return mediaType(kind) == typeForm },
		func(kind string) bool { return kind == "*/*" || mediaType(kind) == "application/*" },
		isText,
	} {
		if i := slices.IndexFunc(kinds, match); i >= 0 {
			return kinds[i]
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return kinds[0]
}

func (b *builder) body(body node) error {
	content := body.object("content")
	kind := kindOf(content)
	if kind == "" {
		if b.method.Method == "POST" || b.method.Method == "PUT" || b.method.Method == "PATCH" {
			b.adapter.Body = toolset.BodyNone
		}
		return nil
	}
	media, required := content.object(kind), body.is("required")
	switch plain := mediaType(kind); {
	case isJSON(kind), kind == "*/*", plain == "application/*":
		b.json(kind, b.truth(media), required)
	case plain == typeMultipart || plain == typeForm:
		return b.form(plain, media, required)
	case isText(kind):
		b.whole(kind, schema{"type": "string", "description": "Text of the type " + plain}, required)
	default:
		b.whole(kind, schema{"type": "string", "format": "binary", "isResource": true, "description": "A file of the type " + plain}, required)
	}
	return nil
}

// whole makes one argument of a body.
func (b *builder) whole(kind string, s schema, required bool) {
	argument := b.argument(toolset.InBody, bodyName)
	b.adapter.BodyParameter = argument
	b.contentType(kind)
	b.add(argument, s, required)
}

func (b *builder) contentType(kind string) {
	if plain := mediaType(kind); plain != typeJSON && !strings.Contains(plain, "*") {
		b.header("Content-Type", kind)
	}
}

func (b *builder) header(name, value string) {
	if b.adapter.Headers == nil {
		b.adapter.Headers = map[string]string{}
	}
	b.adapter.Headers[name] = value
}

// json makes arguments of the properties of a body, or one of all of it.
func (b *builder) json(kind string, of node, required bool) {
	fields, ok := b.fields(of)
	if !ok || b.operation.ReadOnly {
		b.whole(kind, b.convert(of), required)
		return
	}
	b.contentType(kind)
	needed := false
	for _, f := range fields {
		argument := b.argument(toolset.InBody, f.name)
		b.add(argument, b.property(f, argument, false), f.required)
		if needed = needed || f.required; argument != f.name {
			b.place(argument, f.name, parameter{In: toolset.InBody})
		}
	}
	if !required && !needed {
		b.adapter.Body = toolset.BodyOptional
	}
}

// field is a property of a body.
type field struct {
	name     string
	owner    node   // the schema that has it
	ref      string // to that schema; empty where the document has it in place
	required bool
}

// maxParts bounds how deep schemas combine others with allOf.
const maxParts = 8

// fields are the properties of an object that has no others, by name; ok is
// false for anything else.
func (b *builder) fields(of node) (fields []field, ok bool) {
	found := map[string]field{}
	required := map[string]bool{}
	if !b.gather(of, found, required, 0) || len(found) == 0 {
		return nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		f := found[name]
		p := f.owner.object("properties").object(name)
		if b.only(p, "readOnly") {
			continue
		}
		f.required = required[name]
		fields = append(fields, f)
	}
	return fields, len(fields) > 0
}

// bare reports whether a schema is an object without properties.
func (b *builder) bare(of node) bool {
	n, _, err := b.docs.follow(of)
	return err == nil && len(typesOf(n)) == 1 && b.gather(of, map[string]field{}, map[string]bool{}, 0)
}

func (b *builder) gather(of node, found map[string]field, required map[string]bool, depth int) bool {
	n, ref, err := b.docs.follow(of)
	if err != nil || depth > maxParts || nullable(n) {
		return false
	}
	if types := typesOf(n); len(types) > 1 || len(types) == 1 && types[0] != "object" {
		return false
	}
	if slices.ContainsFunc([]string{"oneOf", "anyOf", "not", "if", "patternProperties"}, n.has) {
		return false
	}
	if more, has := n.value["additionalProperties"]; has && more != false {
		return false
	}
	for _, part := range n.list("allOf") {
		if !b.gather(n.of(part), found, required, depth+1) {
			return false
		}
	}
	for name := range n.object("properties").value {
		found[name] = field{name: name, owner: n, ref: ref}
	}
	for _, v := range n.list("required") {
		if name, ok := v.(string); ok {
			required[name] = true
		}
	}
	return true
}

// property is the schema of a field. In a form, a property of bytes is a file of
// the caller's.
func (b *builder) property(f field, argument string, form bool) any {
	of := f.owner.object("properties").value[f.name]
	file := form && b.isFile(f.owner.of(of), 0)
	if b.shares != nil && f.ref != "" {
		to := b.share(f.ref, f.owner, nil)
		switch {
		case file:
			return schema{"$ref": shared.ToProperty(strings.TrimPrefix(to, shared.Prefix), f.name), "isResource": true}
		case argument != f.name:
			return schema{"$ref": shared.ToProperty(strings.TrimPrefix(to, shared.Prefix), f.name)}
		}
		return to
	}
	s := b.schema(f.owner, of, f.ref)
	if file {
		s["isResource"] = true
	}
	return s
}

// isFile reports whether a part of a form is bytes, or a list of them.
func (b *builder) isFile(of node, depth int) bool {
	n, _, err := b.docs.follow(of)
	if err != nil || depth > 1 {
		return false
	}
	kind := mediaType(n.text("contentMediaType"))
	binary := n.text("format") == "binary" || n.text("type") == "file" || n.has("contentMediaType") && n.text("contentEncoding") == "" && !isJSON(kind) && !isText(kind)
	return binary || n.has("items") && b.isFile(n.object("items"), depth+1)
}

// form makes arguments of the fields of a form.
func (b *builder) form(kind string, media node, required bool) error {
	of := b.truth(media)
	fields, ok := b.fields(of)
	switch {
	case !ok && b.bare(of): // some write so that there is no body
		b.adapter.Body = toolset.BodyNone
		return nil
	case !ok:
		return errors.New("a body of " + kind + " must be an object with properties")
	case b.operation.ReadOnly:
		return errors.New("a " + b.operation.Method + " has no form as its body")
	}
	if kind == typeMultipart {
		b.adapter.UseFormData = true
	} else {
		b.header("Content-Type", kind)
	}
	needed := false
	for _, f := range fields {
		argument := b.argument(toolset.InBody, f.name)
		s := b.property(f, argument, kind == typeMultipart)
		b.add(argument, s, f.required)
		needed = needed || f.required
		of := f.owner.object("properties").object(f.name)
		b.encode(argument, f.name, encoding{kind, media.object("encoding").object(f.name), b.shape(of), b.isFile(of, 0)})
	}
	if !required && !needed {
		b.adapter.Body = toolset.BodyOptional
	}
	return nil
}

// encoding is how a document says that a field of a form is written.
type encoding struct {
	form  string
	says  node
	shape int
	file  bool
}

// encode says how a field of a form is written, where it is not as fields are by
// themselves.
func (b *builder) encode(argument, name string, e encoding) {
	p := parameter{In: toolset.InBody}
	kind, _, _ := strings.Cut(e.says.text("contentType"), ",")
	kind = strings.TrimSpace(kind)
	styled := e.says.has("style") || e.says.has("explode") || e.says.is("allowReserved")
	if len(e.says.object("headers").value) > 0 {
		b.lose("field "+name, "the headers of a part of a form are not sent")
	}
	switch {
	case e.form == typeForm && styled:
		style, explode := styleOf(e.says, toolset.InQuery)
		p = fieldStyled(style, explode)
		p.AllowReserved = e.says.is("allowReserved")
	case e.form == typeForm && kind != "" && (isJSON(kind) || isText(kind)) && e.shape != single:
		p.ContentType = kind
	case e.form == typeForm && e.shape == list:
		p = fieldStyled("form", true)
	case e.form == typeForm && e.shape != single:
		p.ContentType = typeJSON
	case e.form == typeMultipart && e.file && (kind == "" || strings.Contains(kind, "*") || strings.Contains(e.says.text("contentType"), ",")):
		p.Style = "" // the file says what it is
	case e.form == typeMultipart && kind != "" && !strings.Contains(kind, "*"):
		p.ContentType = kind
	case e.form == typeMultipart && (e.shape == object || e.shape == unknown):
		p.ContentType = typeJSON
	}
	if argument == name && p == (parameter{In: toolset.InBody}) && (e.form == typeForm || e.shape == single) {
		return
	}
	b.place(argument, name, p)
}

// fieldStyled is how a field is written that has a style: forms have those of
// the query.
func fieldStyled(style string, explode bool) parameter {
	p := parameter{In: toolset.InBody, Style: style}
	if explode != toolset.DefaultExplode(style) {
		p.Explode = &explode
	}
	return p
}

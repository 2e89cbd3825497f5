package openapi

import (
	"maps"
	"slices"

	"github.com/portico-run/portico/modules/toolset"
)

// modern turns the parameters of a Swagger 2 operation into parameters and a
// body as OpenAPI 3 has them.
func (b *builder) modern(all []node) (parameters []node, body node, err error) {
	fields, encodings := map[string]any{}, map[string]any{}
	var required []any
	multipart := false
	consumes := b.media("consumes")
	for _, p := range all {
		name := p.text("name")
		switch p.text("in") {
		case "body":
			content := map[string]any{}
			for _, kind := range consumes {
				content[kind] = map[string]any{"schema": p.value["schema"]}
			}
			if len(content) == 0 {
				content[typeJSON] = map[string]any{"schema": p.value["schema"]}
			}
			body = node{p.in, map[string]any{"content": content, "required": p.value["required"]}}
		case "formData":
			fields[name] = without(p.value, "name", "in", "required", "collectionFormat", refKey)
			if style, explode, has := b.collection(p, toolset.InQuery); has {
				encodings[name] = map[string]any{"style": style, "explode": explode}
			}
			if p.is("required") {
				required = append(required, name)
			}
			multipart = multipart || p.text("type") == "file"
		default:
			parameters = append(parameters, b.modernParameter(p))
		}
	}
	if len(fields) > 0 {
		kind := typeForm
		if multipart || slices.Contains(consumes, typeMultipart) && !slices.Contains(consumes, typeForm) {
			kind = typeMultipart
		}
		media := map[string]any{"schema": map[string]any{"type": "object", "properties": fields, "required": required}}
		if kind == typeForm {
			media["encoding"] = encodings
		}
		body = node{b.doc.in, map[string]any{"content": map[string]any{kind: media}, "required": len(required) > 0}}
	}
	order := func(p node) int { return slices.Index(places(), p.text("in")) }
	slices.SortStableFunc(parameters, func(a, b node) int { return order(a) - order(b) })
	return parameters, body, nil
}

// without is an object without some of its members.
func without(object map[string]any, names ...string) map[string]any {
	out := maps.Clone(object)
	for _, name := range names {
		delete(out, name)
	}
	return out
}

// modernParameter puts into a schema what Swagger 2 says of a parameter itself.
func (b *builder) modernParameter(p node) node {
	out := map[string]any{"name": p.value["name"], "in": p.value["in"], "required": p.value["required"], "description": p.value["description"]}
	out["schema"] = without(p.value, "name", "in", "required", "description", "collectionFormat", "schema", refKey)
	if style, explode, has := b.collection(p, p.text("in")); has {
		out["style"], out["explode"] = style, explode
	}
	return node{p.in, out}
}

// collection is the style of a list.
func (b *builder) collection(p node, in string) (style string, explode, has bool) {
	if p.text("type") != "array" {
		return "", false, false
	}
	style = toolset.DefaultStyle(in)
	switch format := p.text("collectionFormat"); format {
	case "multi":
		return style, true, true
	case "ssv":
		return "spaceDelimited", false, true
	case "pipes":
		return "pipeDelimited", false, true
	case "tsv":
		b.lose("parameter "+p.text("name"), "lists with tabs are not sent: it is sent with commas")
	}
	return style, false, true
}

// media are the media types of an operation, or those of all.
func (b *builder) media(word string) []string {
	at := b.operation.node
	if !at.has(word) {
		at = b.doc
	}
	var out []string
	for _, v := range at.list(word) {
		if kind, ok := v.(string); ok {
			out = append(out, kind)
		}
	}
	return out
}

// modernResponse is a response with its content by media type.
func (b *builder) modernResponse(r node) node {
	if !r.has("schema") {
		return r
	}
	kinds := b.media("produces")
	if len(kinds) == 0 {
		kinds = []string{typeJSON}
	}
	content := map[string]any{}
	for _, kind := range kinds {
		content[kind] = map[string]any{"schema": r.value["schema"]}
	}
	return node{r.in, map[string]any{"content": content}}
}

package openapi

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/shared"
	"github.com/portico-run/portico/modules/toolset"
)

func (b *builder) parameter(p node) error {
	name, in := p.text("name"), p.text("in")
	required := p.is("required")
	switch {
	case in == toolset.InHeader && slices.Contains([]string{"accept", "content-type", "authorization"}, strings.ToLower(name)):
		return nil // the gateway's own
	case b.isCredential(in, name):
		return nil // the toolset's own
	case in == toolset.InBody || !slices.Contains(places(), in):
		b.lose("parameter "+name, "%q is no part of a request", in)
		return b.unless(required, name)
	case in == toolset.InPath && !strings.Contains(b.method.Endpoint, "{"+name+"}"):
		b.lose("parameter "+name, "the path has no place {%s}", name)
		return nil
	}
	of, contentType, err := b.schemaOfParameter(p)
	if err != nil {
		b.lose("parameter "+name, "%s", err)
		return b.unless(required, name)
	}
	argument := b.argument(in, name)
	b.add(argument, b.described(p, of), required || in == toolset.InPath)
	at := styled(in, toolset.DefaultStyle(in), toolset.DefaultExplode(toolset.DefaultStyle(in)))
	at.AllowReserved = in == toolset.InQuery && p.is("allowReserved")
	if at.ContentType = contentType; contentType == "" {
		style, explode := styleOf(p, in)
		if !toolset.KnowsStyle(in, style) {
			b.lose("parameter "+name, "a parameter in %s has no style %q; its own is taken", in, style)
			style, explode = toolset.DefaultStyle(in), toolset.DefaultExplode(toolset.DefaultStyle(in))
		}
		reserved := at.AllowReserved
		at = styled(in, style, explode)
		at.AllowReserved = reserved
	}
	b.send(argument, name, at, b.shape(of))
	return nil
}

// unless refuses an operation that cannot be called without a parameter.
func (b *builder) unless(required bool, name string) error {
	if required {
		return fmt.Errorf("it needs the parameter %s, which is left out", name)
	}
	return nil
}

// styleOf is how a parameter is written.
func styleOf(p node, in string) (style string, explode bool) {
	style = p.text("style")
	if style == "" {
		style = toolset.DefaultStyle(in)
	}
	explode = toolset.DefaultExplode(style)
	if v, ok := p.value["explode"].(bool); ok {
		explode = v
	}
	return style, explode
}

// schemaOfParameter is the schema of a parameter, and the media type in which it
// is written where it has one.
func (b *builder) schemaOfParameter(p node) (node, string, error) {
	content := p.object("content")
	if p.has("schema") || len(content.value) == 0 {
		return b.truth(p), "", nil
	}
	kind := slices.Sorted(maps.Keys(content.value))[0]
	if !isJSON(kind) && !isText(kind) {
		return node{}, "", fmt.Errorf("a parameter cannot be written as %s", kind)
	}
	return b.truth(content.object(kind)), kind, nil
}

// truth is the schema of a parameter or of a media type; true and none are any
// value.
func (b *builder) truth(n node) node {
	s := n.object("schema")
	if always, ok := n.value["schema"].(bool); ok {
		s.value = schemaOf(always)
	}
	return s
}

// described is the schema of a parameter with the parameter's description. One
// that the document has for several operations is shared, too.
func (b *builder) described(p, of node) schema {
	build := func() schema {
		s := schema{"type": "string"}
		if of.value != nil {
			s = b.convert(of)
		}
		if text := p.text("description"); text != "" {
			s["description"] = text
		}
		return s
	}
	if ref := p.text(refKey); b.shares != nil && ref != "" && !b.swagger {
		return schema{"$ref": shared.To(b.shares.name(ref, nil, build))}
	}
	return build()
}

// shapes of values, which decide how a style writes them.
const (
	single = iota
	list
	object
	unknown
)

// shape is that of a schema's values.
func (b *builder) shape(of node) int {
	n, _, err := b.docs.follow(of)
	if err != nil {
		return unknown
	}
	if of.value == nil {
		return single
	}
	types := slices.DeleteFunc(typesOf(n), func(t string) bool { return t == "null" })
	switch {
	case len(types) == 0 && len(n.list("enum")) > 0:
		return single
	case len(types) == 0 && (n.has("properties") || n.has("additionalProperties")):
		return object
	case len(types) == 0 && n.has("items"):
		return list
	case len(types) == 0:
		return unknown
	}
	if !slices.ContainsFunc(types, func(t string) bool { return t == "array" || t == "object" }) {
		return single
	}
	switch {
	case len(types) > 1:
		return unknown
	case types[0] == "array":
		return list
	}
	return object
}

// send says where an argument goes, in the shortest way.
func (b *builder) send(argument, name string, p parameter, shape int) {
	plain := argument == name && p.ContentType == "" && !p.AllowReserved
	own := p.Style == "" && p.Explode == nil
	switch p.In {
	case toolset.InPath:
		b.rename(name, argument)
		if p.ContentType == "" && own && shape == single {
			return
		}
		b.place(argument, argument, p) // the endpoint has the new name
		return
	case toolset.InQuery:
		if plain && (p.Style == "" && shape == single || own && shape == list) {
			if b.explicit {
				b.adapter.QueryParameters = append(b.adapter.QueryParameters, name)
			}
			return
		}
	case toolset.InHeader:
		if p.ContentType == "" && shape == single {
			if b.adapter.HeaderParameters == nil {
				b.adapter.HeaderParameters = map[string]string{}
			}
			b.adapter.HeaderParameters[argument] = name
			return
		}
	}
	b.place(argument, name, p)
}

// isCredential reports whether a parameter is what the credential is sent as.
func (b *builder) isCredential(in, name string) bool {
	return slices.ContainsFunc(b.credentials, func(s scheme) bool {
		return s.credential.Type == in && (s.credential.Name == name || in == toolset.InHeader && http.CanonicalHeaderKey(s.credential.Name) == http.CanonicalHeaderKey(name))
	})
}

// mediaType is a media type without parameters, in small letters.
func mediaType(kind string) string {
	if plain, _, err := mime.ParseMediaType(kind); err == nil {
		return plain
	}
	plain, _, _ := strings.Cut(kind, ";")
	return strings.ToLower(strings.TrimSpace(plain))
}

func isJSON(kind string) bool {
	kind = mediaType(kind)
	return kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")
}

func isText(kind string) bool {
	kind = mediaType(kind)
	return strings.HasPrefix(kind, "text/") || kind == "application/xml" || strings.HasSuffix(kind, "+xml") && kind != "image/svg+xml" || strings.HasSuffix(kind, "yaml") ||
		slices.Contains([]string{"application/x-ndjson", "application/jsonl", "application/graphql", "application/javascript"}, kind)
}

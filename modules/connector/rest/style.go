package rest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// pair is a name and a value as they are sent.
type pair struct{ name, value string }

// escapeAll writes as %XX what is neither a letter or digit nor one of - . _ ~
func escapeAll(s string) string { return escape(s, "") }

// reserved are the characters of URLs that allowReserved leaves in a query.
// Those that end a value there are always escaped.
const reserved = ":/?@!$'()*,;="

func escape(s, keep string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 || strings.IndexByte(keep, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// escaper is how the values of a parameter are escaped.
func escaper(p toolset.Parameter) func(string) string {
	switch {
	case p.In == toolset.InHeader:
		return oneLine
	case p.AllowReserved:
		return func(s string) string { return escape(s, reserved) }
	}
	return escapeAll
}

// oneLine keeps a value from beginning another header.
func oneLine(s string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(s) }

// members are what an object has, by name; null is left out.
func members(object map[string]any) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(object)), func(name string) bool { return object[name] == nil })
}

// pieces are the values of a list, or the members of an object: each with its
// name and = if it is exploded, else name and value one after the other.
func pieces(v any, explode bool, escape func(string) string) []string {
	var out []string
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if item != nil {
				out = append(out, escape(text(item)))
			}
		}
	case map[string]any:
		for _, name := range members(v) {
			if explode {
				out = append(out, escape(name)+"="+escape(text(v[name])))
			} else {
				out = append(out, escape(name), escape(text(v[name])))
			}
		}
	default:
		out = append(out, escape(text(v)))
	}
	return out
}

// intoPath writes a value into a path. See RFC 6570, sections 3.2.2, 3.2.5 and
// 3.2.7, which OpenAPI refers to.
func intoPath(p toolset.Parameter, argument string, v any) (string, *tool.Failure) {
	name := nameIn(p, argument)
	if p.ContentType != "" {
		return escapeAll(encoded(p.ContentType, v)), nil
	}
	parts := pieces(v, p.Exploded(), escapeAll)
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return "", invalid(argument, "must not be empty or dots: it is part of the tool's address")
		}
	}
	if len(parts) == 0 {
		return "", invalid(argument, "must not be empty: it is part of the tool's address")
	}
	_, isObject := v.(map[string]any)
	switch style := p.Written(); {
	case style == "label" && p.Exploded():
		return "." + strings.Join(parts, "."), nil
	case style == "label":
		return "." + strings.Join(parts, ","), nil
	case style == "matrix" && p.Exploded() && isObject:
		return ";" + strings.Join(parts, ";"), nil
	case style == "matrix" && p.Exploded():
		return ";" + escapeAll(name) + "=" + strings.Join(parts, ";"+escapeAll(name)+"="), nil
	case style == "matrix":
		return ";" + escapeAll(name) + "=" + strings.Join(parts, ","), nil
	}
	return strings.Join(parts, ","), nil
}

// inQuery writes a value as fields of a query or of a form.
func inQuery(p toolset.Parameter, argument string, v any) []pair {
	name, escape := escapeAll(nameIn(p, argument)), escaper(p)
	if p.ContentType != "" {
		return []pair{{name, escape(encoded(p.ContentType, v))}}
	}
	list, isList := v.([]any)
	object, isObject := v.(map[string]any)
	switch style := p.Written(); {
	case style == "deepObject" && (isList || isObject):
		return deep(name, v, escape)
	case !isList && !isObject:
		return []pair{{name, escape(text(v))}}
	case p.Exploded() && isObject:
		var out []pair
		for _, member := range members(object) {
			for _, value := range pieces(object[member], false, escape) {
				out = append(out, pair{escapeAll(member), value})
			}
		}
		return out
	case p.Exploded():
		var out []pair
		for _, value := range pieces(list, false, escape) {
			out = append(out, pair{name, value})
		}
		return out
	default:
		parts := pieces(v, false, escape)
		if len(parts) == 0 {
			return nil
		}
		return []pair{{name, strings.Join(parts, delimiter(style))}}
	}
}

func delimiter(style string) string {
	switch style {
	case "spaceDelimited":
		return "%20"
	case "pipeDelimited":
		return "%7C"
	}
	return ","
}

// deep writes an object as name[member]=value, and what is in it the same way.
// Items of lists are numbered.
func deep(name string, v any, escape func(string) string) []pair {
	var out []pair
	switch v := v.(type) {
	case map[string]any:
		for _, member := range members(v) {
			out = append(out, deep(name+"%5B"+escapeAll(member)+"%5D", v[member], escape)...)
		}
	case []any:
		for i, item := range v {
			if item != nil {
				out = append(out, deep(fmt.Sprintf("%s%%5B%d%%5D", name, i), item, escape)...)
			}
		}
	default:
		out = append(out, pair{name, escape(text(v))})
	}
	return out
}

// inHeader writes a value as a header's.
func inHeader(p toolset.Parameter, v any) string {
	if p.ContentType != "" {
		return oneLine(encoded(p.ContentType, v))
	}
	return strings.Join(pieces(v, p.Exploded(), oneLine), ",")
}

// encoded writes a value in a media type: JSON as JSON, anything else as text.
func encoded(kind string, v any) string {
	if s, ok := v.(string); ok && !isJSON(mediaOf(kind)) {
		return s
	}
	return asJSON(v)
}

// joined writes pairs as a query, a form or, with "; ", a cookie.
func joined(pairs []pair, with string) string {
	out := make([]string, len(pairs))
	for i, p := range pairs {
		out[i] = p.name + "=" + p.value
	}
	return strings.Join(out, with)
}

func nameIn(p toolset.Parameter, argument string) string {
	if p.Name != "" {
		return p.Name
	}
	return argument
}

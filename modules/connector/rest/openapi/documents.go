package openapi

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
)

// Read returns what is at a location that a document refers to: a URL, or the
// path of a file. It decides what may be read.
type Read func(ctx context.Context, location string) ([]byte, error)

// Limits of what a document refers to.
const (
	maxDocuments = 200
	maxBytes     = 32 << 20
	// maxHops is how many references lead to one another.
	maxHops = 32
)

// source is a document that was read.
type source struct {
	location string // empty where it is not known
	root     any
}

// node is an object of a document.
type node struct {
	in    *source
	value map[string]any
}

// has reports whether there is such a member.
func (n node) has(name string) bool { _, ok := n.value[name]; return ok }

// text is a member that is a text; empty for none.
func (n node) text(name string) string { s, _ := n.value[name].(string); return s }

// is reports whether a member is true.
func (n node) is(name string) bool { b, _ := n.value[name].(bool); return b }

// list is a member that is a list.
func (n node) list(name string) []any { l, _ := n.value[name].([]any); return l }

// object is a member that is an object, an empty one for none.
func (n node) object(name string) node { return n.of(n.value[name]) }

// of is a value of the same document as an object.
func (n node) of(v any) node { m, _ := v.(map[string]any); return node{n.in, m} }

// documents reads what a document refers to, each location once.
type documents struct {
	ctx  context.Context //nolint:containedctx // of one conversion
	read Read
	at   map[string]*loaded
	// left is how many bytes may still be read.
	left int
}

type loaded struct {
	source *source
	err    error
}

// errCircle says that references lead to one another without end.
var errCircle = errors.New("its references lead in a circle")

// follow returns what an object refers to, itself where it does not, and the
// reference, with the location of its document.
func (d *documents) follow(n node) (node, string, error) {
	first := ""
	for range maxHops {
		text, ok := n.value["$ref"].(string)
		if !ok {
			return n, first, nil
		}
		target, ref, err := d.target(n, text)
		if err != nil {
			return n, first, err
		}
		if first == "" {
			first = ref
		}
		n = target
	}
	return n, first, errCircle
}

// target is what one reference refers to.
func (d *documents) target(n node, text string) (node, string, error) {
	location, fragment, _ := strings.Cut(text, "#")
	in := n.in
	if location != "" {
		whole, err := join(n.in.location, location)
		if err == nil {
			in, err = d.load(whole)
		}
		if err != nil {
			return node{}, "", fmt.Errorf("%s cannot be read: %w", text, err)
		}
	}
	pointer, err := url.PathUnescape(fragment)
	if err != nil {
		pointer = fragment
	}
	v, ok := find(in.root, pointer)
	if !ok {
		return node{}, "", fmt.Errorf("%s refers to nothing", text)
	}
	value, ok := v.(map[string]any)
	if b, is := v.(bool); is { // a schema may be true or false
		value, ok = schemaOf(b), true
	}
	if !ok {
		return node{}, "", fmt.Errorf("%s refers to no object", text)
	}
	return node{in, value}, in.location + "#" + pointer, nil
}

// find follows a JSON pointer.
func find(v any, pointer string) (any, bool) {
	if pointer == "" {
		return v, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch in := v.(type) {
		case map[string]any:
			next, ok := in[token]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// load reads another document.
func (d *documents) load(location string) (*source, error) {
	if had, ok := d.at[location]; ok {
		return had.source, had.err
	}
	l := &loaded{}
	l.source, l.err = d.open(location)
	d.at[location] = l
	return l.source, l.err
}

func (d *documents) open(location string) (*source, error) {
	switch {
	case d.read == nil:
		return nil, errors.New("it is outside the document")
	case len(d.at) >= maxDocuments:
		return nil, fmt.Errorf("the document refers to more than %d others", maxDocuments)
	}
	text, err := d.read(d.ctx, location)
	if err != nil {
		return nil, err
	}
	if d.left -= len(text); d.left < 0 {
		return nil, fmt.Errorf("the documents have more than %d bytes together", maxBytes)
	}
	root, err := parse(text)
	return &source{location, root}, err
}

// join is the location of what a document refers to.
func join(base, ref string) (string, error) {
	to, err := url.Parse(ref)
	if err != nil {
		return "", errors.New("it is no location")
	}
	if to.Scheme != "" {
		if to.Scheme != "http" && to.Scheme != "https" {
			return "", fmt.Errorf("%s: is no kind of location that is read", to.Scheme)
		}
		return to.String(), nil
	}
	if isWeb(base) {
		from, err := url.Parse(base)
		if err != nil {
			return "", err
		}
		return from.ResolveReference(to).String(), nil
	}
	path := filepath.FromSlash(to.Path)
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	return filepath.Join(filepath.Dir(base), path), nil
}

// isWeb reports whether a location is a URL.
func isWeb(location string) bool {
	return strings.HasPrefix(location, "http://") || strings.HasPrefix(location, "https://")
}

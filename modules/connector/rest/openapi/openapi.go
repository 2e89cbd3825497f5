// Package openapi turns OpenAPI 3 and Swagger 2 documents into toolset files.
//
// A document is read as what it is, maps and lists, and one operation after the
// other is made a method: what is wrong with one leaves out that one only.
package openapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/toolset"
)

// Options say what becomes of a document.
type Options struct {
	// Key is that of the toolset.
	Key string
	// Tags and Operations choose operations, by tag and by operationId; all of
	// them where both are empty. ReadOnly chooses of these the ones that only read.
	Tags, Operations []string
	ReadOnly         bool
	// Domain is where the API is, for documents that do not say it.
	Domain string
	// ServerVariables are those of the document's server, by name.
	ServerVariables map[string]string
	// Security are the security schemes that calls use together; empty for those
	// that serve most operations. Bearer is a token instead of any scheme.
	Security []string
	Bearer   bool
	// Egress are networks beyond the public internet where the API is.
	Egress []string
	// Price is what a call of each method costs, in credits.
	Price string
	// Location is the path or the URL of the document, and Read returns what it
	// refers to; nil reads nothing.
	Location string
	Read     Read
}

// Toolset is a toolset file, and what could not be carried over.
type Toolset struct {
	File    []byte
	Methods int
	// LeftOut is what the file does not have, by operation; Notes is what else is
	// worth knowing.
	LeftOut []Left
	Notes   []string
}

// Left is an operation that is left out, or a part of one.
type Left struct {
	// Operation is its HTTP method and path.
	Operation string `json:"operation"`
	// Part is what is left out of it; empty for all of it.
	Part   string `json:"part,omitempty"`
	Reason string `json:"reason"`
}

// String is one line.
func (l Left) String() string {
	if l.Part == "" {
		return l.Operation + " is left out: " + l.Reason
	}
	return l.Operation + ": " + l.Part + ": " + l.Reason
}

// Operation is one that a document has.
type Operation struct {
	// Name is that of the method which it becomes.
	Name     string   `json:"name"`
	Method   string   `json:"method"`
	Path     string   `json:"path"`
	Summary  string   `json:"summary,omitempty"`
	Tags     []string `json:"tags,omitempty"`
	ReadOnly bool     `json:"readOnly"`
}

// List says which operations of a document are chosen, and makes nothing.
func List(ctx context.Context, document []byte, o Options) ([]Operation, []Left, error) {
	c, err := open(ctx, document, o)
	if err != nil {
		return nil, nil, err
	}
	chosen, err := c.choose()
	out := make([]Operation, len(chosen))
	for i, op := range chosen {
		out[i] = op.Operation
	}
	return out, c.left, err
}

// Convert reads a document. Where the file would be long, it has the schemas
// that the document names once, and tools that refer to them.
func Convert(ctx context.Context, document []byte, o Options) (Toolset, error) {
	return convert(ctx, document, o, maxInline)
}

// convert is Convert with another bound than maxInline.
func convert(ctx context.Context, document []byte, o Options, inline int) (Toolset, error) {
	opened, err := open(ctx, document, o)
	if err != nil {
		return Toolset{}, err
	}
	c := opened.again()
	c.inline, c.room = inline, len(document)
	if inline > maxInline {
		c.room = inline
	}
	out, err := c.toolset()
	if errors.Is(err, errManySchemas) {
		c = opened.again()
		c.shares = newShares()
		out, err = c.toolset()
	}
	if err != nil {
		return Toolset{}, c.explain(err)
	}
	made := Toolset{Methods: len(out.Methods), LeftOut: c.left, Notes: c.notes}
	c.doc, c.docs = node{}, nil // the text needs memory, too
	made.File, err = out.text()
	return made, err
}

// open reads a document and says what it is.
func open(ctx context.Context, document []byte, o Options) (*converter, error) {
	if len(document) > maxBytes {
		return nil, fmt.Errorf("the document has more than %d bytes", maxBytes)
	}
	root, err := parse(document)
	if err != nil {
		return nil, fmt.Errorf("the OpenAPI document cannot be read: %w", err)
	}
	in := &source{o.Location, root}
	doc := node{in: in}.of(root)
	version, old := fmt.Sprint(doc.value["openapi"]), fmt.Sprint(doc.value["swagger"])
	c := &converter{options: o, doc: doc, docs: &documents{ctx: ctx, read: o.Read, left: maxBytes - len(document), at: map[string]*loaded{o.Location: {source: in}}}}
	switch {
	case version == "3" || strings.HasPrefix(version, "3."):
	case old == "2" || strings.HasPrefix(old, "2."):
		c.swagger = true
	default:
		return nil, errors.New("the document is neither OpenAPI 3 nor Swagger 2: it has no line openapi: 3… or swagger: 2…")
	}
	return c, nil
}

// converter makes one file.
type converter struct {
	options Options
	doc     node
	docs    *documents
	swagger bool // version 2

	left  []Left
	seen  map[Left]bool
	notes []string
	// current is the operation that is being made.
	current string

	// written counts the schemas of the file so far, of which there are at most
	// inline unless shares takes those that the document names, each once. room is
	// how many bytes they have together.
	written, inline, room int
	shares                *shares
	domain                string
	credentials           []scheme
}

// again is a converter of the same document that has made nothing.
func (c *converter) again() *converter {
	return &converter{options: c.options, doc: c.doc, docs: c.docs, swagger: c.swagger}
}

// lose reports a part of the operation that is being made.
func (c *converter) lose(part, format string, args ...any) {
	l := Left{c.current, part, fmt.Sprintf(format, args...)}
	if c.seen == nil {
		c.seen = map[Left]bool{}
	}
	if !c.seen[l] {
		c.seen[l] = true
		c.left = append(c.left, l)
	}
}

func (c *converter) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.notes, text) {
		c.notes = append(c.notes, text)
	}
}

// explain adds to an error why the operations of the document are left out.
func (c *converter) explain(err error) error {
	if !errors.Is(err, errNothing) {
		return err
	}
	counts := map[string]int{}
	for _, l := range c.left {
		if l.Part == "" {
			counts[l.Reason]++
		}
	}
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	for i, reason := range reasons {
		if i == 3 {
			break
		}
		err = fmt.Errorf("%w\n%d left out: %s", err, counts[reason], reason)
	}
	return err
}

var errNothing = errors.New("no operation of the document can be taken")

// toolset makes the file.
func (c *converter) toolset() (file, error) {
	info := c.doc.object("info")
	out := file{Key: c.options.Key, Name: c.options.Key, Billing: c.options.Price}
	if title := strings.TrimSpace(info.text("title")); title != "" {
		out.Name = title
	}
	if text := info.text("description"); text != "" {
		out.Descriptions = map[string]string{"en": text}
	}
	var err error
	if c.domain, err = c.server(); err != nil {
		return out, err
	}
	out.Domain = c.domain
	if len(c.options.Egress) > 0 {
		out.Egress = &egress{c.options.Egress}
	}
	chosen, err := c.choose()
	if err != nil {
		return out, err
	}
	if err := c.secure(chosen); err != nil {
		return out, err
	}
	out.Credential = c.credential()
	if ofUsers(c.credentials) {
		out.Type = toolset.TypeOAuth
	}
	for _, op := range chosen {
		if err := c.docs.ctx.Err(); err != nil {
			return out, err
		}
		c.current = op.Method + " " + op.Path
		m, err := c.method(op)
		if c.full() {
			return out, errManySchemas
		}
		if err != nil {
			c.lose("", "%s", err)
			continue
		}
		out.Methods = append(out.Methods, m)
	}
	if out.Methods, err = c.checked(out.Methods); err != nil {
		return out, err
	}
	if len(out.Methods) == 0 {
		return out, errNothing
	}
	slices.SortFunc(out.Methods, func(a, b method) int { return strings.Compare(a.Name, b.Name) })
	if c.shares != nil {
		out.schemas = c.shares.schemas
	}
	c.ignored()
	return out, nil
}

// ignored notes what documents have besides operations.
func (c *converter) ignored() {
	if n := len(c.doc.object("webhooks").value) + len(c.doc.object("x-webhooks").value); n > 0 {
		c.note("%d webhooks are ignored: they are requests that the API makes, not tools", n)
	}
}

// Package openapi turns OpenAPI 3 documents into toolset files.
package openapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"go.yaml.in/yaml/v3"
)

// Options say what becomes of a document.
type Options struct {
	// Key is that of the toolset.
	Key string
	// Tags and Operations choose operations, by tag and by operationId; all of
	// them where both are empty.
	Tags, Operations []string
	// Domain is where the API is, for documents that do not say it.
	Domain string
	// Egress are networks beyond the public internet where the API is.
	Egress []string
	// Price is what a call of each method costs, in credits.
	Price string
}

// Toolset is a toolset file, and what could not be carried over.
type Toolset struct {
	File     []byte
	Methods  int
	Warnings []string
}

// Convert reads a document. It loads nothing that the document refers to
// elsewhere. Where the file would be long, it has the schemas that the document
// names once, and tools that refer to them.
func Convert(ctx context.Context, document []byte, o Options) (Toolset, error) {
	return convert(ctx, document, o, maxInline)
}

// convert is Convert with another bound than maxInline.
func convert(ctx context.Context, document []byte, o Options, inline int) (Toolset, error) {
	loader := openapi3.NewLoader()
	loader.Context = ctx
	doc, err := loader.LoadFromData(document)
	if err != nil {
		return Toolset{}, fmt.Errorf("the OpenAPI document cannot be read: %w", err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.") {
		return Toolset{}, errors.New("the document is not OpenAPI 3")
	}
	c := &converter{options: o, doc: doc, inline: inline}
	out, err := c.toolset()
	if errors.Is(err, errManySchemas) {
		c = &converter{options: o, doc: doc, shares: newShares()}
		out, err = c.toolset()
	}
	if err != nil {
		return Toolset{}, err
	}
	c.doc, doc = nil, nil // the text needs memory, too
	text, err := out.text()
	return Toolset{File: text, Methods: len(out.methods), Warnings: c.warnings}, err
}

// file is a toolset file.
type file struct {
	Key          string            `yaml:"key"`
	Name         string            `yaml:"name"`
	Domain       string            `yaml:"domain"`
	Descriptions map[string]string `yaml:"descriptions,omitempty"`
	Credential   *credential       `yaml:"credential,omitempty"`
	Egress       *egress           `yaml:"egress,omitempty"`
	Billing      string            `yaml:"billing"`

	schemas map[string]schema
	methods []written
}

// written is a method as text.
type written struct {
	name string
	text []byte
}

// text writes the file piece by piece: the encoder keeps all that it has
// written of one.
func (f file) text() ([]byte, error) {
	out, err := yaml.Marshal(f)
	if err != nil {
		return nil, err
	}
	for i, name := range slices.Sorted(maps.Keys(f.schemas)) {
		if i == 0 {
			out = append(out, "schemas:\n"...)
		}
		piece, err := yaml.Marshal(map[string]schema{name: f.schemas[name]})
		if err != nil {
			return nil, err
		}
		out = indent(out, piece)
	}
	out = append(out, "methods:\n"...)
	for _, m := range f.methods {
		out = indent(out, m.text)
	}
	return out, nil
}

// indent appends lines of YAML as part of what is above them.
func indent(out, lines []byte) []byte {
	for line := range bytes.Lines(lines) {
		if len(line) > 1 {
			out = append(out, "    "...)
		}
		out = append(out, line...)
	}
	return out
}

type egress struct {
	Allow []string `yaml:"allow"`
}

type credential struct {
	Type     string `yaml:"type"`
	Name     string `yaml:"name,omitempty"`
	Username string `yaml:"username,omitempty"`
	Value    string `yaml:"value"`
}

type method struct {
	Name        string         `yaml:"name"`
	Description string         `yaml:"description,omitempty"`
	Endpoint    string         `yaml:"endpoint"`
	Method      string         `yaml:"method"`
	Adapter     *adapter       `yaml:"adapter,omitempty"`
	Request     map[string]any `yaml:"request"`
	Response    map[string]any `yaml:"response,omitempty"`
}

type adapter struct {
	Headers          map[string]string `yaml:"headers,omitempty"`
	UseFormData      bool              `yaml:"useFormData,omitempty"`
	QueryParameters  []string          `yaml:"queryParameters,omitempty"`
	HeaderParameters map[string]string `yaml:"headerParameters,omitempty"`
	BodyParameter    string            `yaml:"bodyParameter,omitempty"`
}

type converter struct {
	options  Options
	doc      *openapi3.T
	warnings []string
	// written counts the schemas of the file so far, of which there are at most
	// inline unless shares takes those that the document names, each once.
	written, inline int
	shares          *shares
}

func (c *converter) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

func (c *converter) toolset() (file, error) {
	out := file{Key: c.options.Key, Name: c.options.Key, Billing: c.options.Price}
	if info := c.doc.Info; info != nil {
		if info.Title != "" {
			out.Name = info.Title
		}
		if info.Description != "" {
			out.Descriptions = map[string]string{"en": info.Description}
		}
	}
	var err error
	if out.Domain, err = c.domain(); err != nil {
		return out, err
	}
	out.Credential = c.credential()
	if len(c.options.Egress) > 0 {
		out.Egress = &egress{c.options.Egress}
	}
	for _, path := range c.doc.Paths.InMatchingOrder() {
		item := c.doc.Paths.Find(path)
		for _, verb := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if op := item.GetOperation(verb); op != nil && c.chosen(op) {
				m, err := c.method(path, verb, item, op)
				if c.full() {
					err = errManySchemas
				}
				if err != nil {
					return out, fmt.Errorf("%s %s: %w", verb, path, err)
				}
				text, err := yaml.Marshal([]method{m})
				if err != nil {
					return out, err
				}
				out.methods = append(out.methods, written{m.Name, text})
			}
		}
	}
	slices.SortFunc(out.methods, func(a, b written) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(out.methods); i++ {
		if out.methods[i].name == out.methods[i-1].name {
			return out, fmt.Errorf("two operations are called %q", out.methods[i].name)
		}
	}
	for _, id := range c.options.Operations {
		if !slices.ContainsFunc(out.methods, func(m written) bool { return m.name == nameOf(id) }) {
			return out, fmt.Errorf("there is no operation %q", id)
		}
	}
	if len(out.methods) == 0 {
		return out, errors.New("no operation of the document is chosen")
	}
	if c.shares != nil {
		out.schemas = c.shares.schemas
	}
	return out, nil
}

func (c *converter) chosen(op *openapi3.Operation) bool {
	if len(c.options.Tags)+len(c.options.Operations) == 0 || slices.Contains(c.options.Operations, op.OperationID) {
		return true
	}
	return slices.ContainsFunc(op.Tags, func(tag string) bool { return slices.Contains(c.options.Tags, tag) })
}

// domain is where the API is: the first server, its variables at their defaults.
func (c *converter) domain() (string, error) {
	domain := c.options.Domain
	if domain == "" && len(c.doc.Servers) > 0 {
		domain = c.doc.Servers[0].URL
		for name, v := range c.doc.Servers[0].Variables {
			domain = strings.ReplaceAll(domain, "{"+name+"}", v.Default)
		}
	}
	u, err := url.Parse(domain)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", errors.New("the document names no server by a whole URL; give one with --domain")
	}
	return strings.TrimSuffix(domain, "/"), nil
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9]+`)

// nameOf is an operationId as the name of a method.
func nameOf(id string) string { return strings.Trim(notInName.ReplaceAllString(id, "_"), "_") }

// credential maps the first security scheme that a toolset can use. Its value is
// a variable of the environment: a document holds no secrets.
func (c *converter) credential() *credential {
	if c.doc.Components == nil || len(c.doc.Components.SecuritySchemes) == 0 {
		return nil
	}
	names := make([]string, 0, len(c.doc.Components.SecuritySchemes))
	for name := range c.doc.Components.SecuritySchemes {
		names = append(names, name)
	}
	slices.Sort(names)
	variable := "TOOLSET_" + strings.ToUpper(notInName.ReplaceAllString(c.options.Key, "_"))
	for _, name := range names {
		s := c.doc.Components.SecuritySchemes[name].Value
		out := &credential{Value: "${" + variable + "_API_KEY}"}
		switch {
		case s.Type == "http" && strings.EqualFold(s.Scheme, "basic"):
			out.Type, out.Username = "basic", "${"+variable+"_USER}"
		case s.Type == "http", s.Type == "oauth2", s.Type == "openIdConnect":
			out.Type = "bearer"
		case s.Type == "apiKey" && (s.In == "header" || s.In == "query"):
			out.Type, out.Name = s.In, s.Name
		default:
			c.warn("security scheme %s (%s in %s) is not one that toolsets know", name, s.Type, s.In)
			continue
		}
		return out
	}
	return nil
}

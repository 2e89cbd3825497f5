package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// document is the part of an OpenAPI document that the page shows.
type document struct {
	Info    struct{ Title, Version, Description string }
	Servers []struct{ URL string }
	Paths   map[string]map[string]struct {
		OperationID          string
		Summary, Description string
		Tags                 []string
		Security             []map[string][]string
		Parameters           []struct {
			Name, In, Description string
			Required              bool
			Schema                schema
			Example               json.RawMessage
		}
		RequestBody struct{ Content map[string]media }
		Responses   map[string]struct {
			Description string
			Content     map[string]media
		}
	}
	Components struct {
		Schemas         map[string]schema
		SecuritySchemes map[string]struct{ Type, In, Name, Scheme, Description string }
	}
}

type media struct {
	Schema   schema
	Event    schema `json:"x-event-schema"`
	Example  json.RawMessage
	Examples map[string]struct{ Value json.RawMessage }
}

// reference is what the page is made of.
type reference struct {
	Title, Version, Description, Server string
	Credentials                         []credential
	Groups                              []*group
	Schemas                             []described
}

type credential struct{ Where, Description string }

// group is the operations of one tag.
type group struct {
	Tag        string
	Operations []operation
}

type operation struct {
	Method, Path, ID     string
	Summary, Description string
	Public               bool
	Parameters           []field
	Body                 []content
	Answers, Refusals    []answer
}

// Tryable says whether a page can send it: it takes no body, or one that is JSON.
func (o operation) Tryable() bool {
	return len(o.Body) == 0 || slices.ContainsFunc(o.Body, func(c content) bool { return c.Kind == "application/json" })
}

type answer struct {
	Status, Description string
	Content             []content
}

// content is a body of one content type.
type content struct {
	Kind     string
	Type     typeText
	Fields   []field
	Examples []sample
}

// sample is an example, with a name where there are several.
type sample struct{ Name, Text string }

// described is a schema of the document's components.
type described struct {
	Name, Description string
	Type              typeText
	Fields            []field
}

func read(text []byte) (reference, error) {
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		return reference{}, fmt.Errorf("the API's document: %w", err)
	}
	page := reference{Title: doc.Info.Title, Version: doc.Info.Version, Description: doc.Info.Description}
	if len(doc.Servers) > 0 {
		page.Server = doc.Servers[0].URL
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Components.SecuritySchemes)) {
		s := doc.Components.SecuritySchemes[name]
		where := strings.TrimSpace(s.In + " " + s.Name)
		if s.Scheme != "" {
			where = "header Authorization: " + s.Scheme
		}
		page.Credentials = append(page.Credentials, credential{where, s.Description})
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		s := doc.Components.Schemas[name]
		page.Schemas = append(page.Schemas, described{Name: name, Description: s.Description, Type: s.text(), Fields: s.fields("")})
	}
	page.Groups = doc.groups()
	return page, nil
}

func (d document) groups() []*group {
	groups := map[string]*group{}
	for path, item := range d.Paths {
		for method, op := range item {
			tag := strings.Join(op.Tags, ", ")
			if groups[tag] == nil {
				groups[tag] = &group{Tag: tag}
			}
			o := operation{
				Method: strings.ToUpper(method), Path: path, ID: op.OperationID, Summary: op.Summary, Description: op.Description,
				Public: len(op.Security) == 0, Body: d.contents(op.RequestBody.Content),
			}
			for _, p := range op.Parameters {
				o.Parameters = append(o.Parameters, field{
					Name: p.Name, In: p.In, Required: p.Required, Type: p.Schema.text(), Limits: p.Schema.limits(), Description: p.Description, Example: line(p.Example),
				})
			}
			for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
				r := op.Responses[status]
				a := answer{Status: status, Description: r.Description, Content: d.contents(r.Content)}
				if status < "400" {
					o.Answers = append(o.Answers, a)
				} else {
					o.Refusals = append(o.Refusals, a)
				}
			}
			groups[tag].Operations = append(groups[tag].Operations, o)
		}
	}
	sorted := slices.Collect(maps.Values(groups))
	for _, g := range sorted {
		slices.SortFunc(g.Operations, func(a, b operation) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
		})
	}
	slices.SortFunc(sorted, func(a, b *group) int { return strings.Compare(a.Tag, b.Tag) })
	return sorted
}

func (d document) contents(by map[string]media) []content {
	var list []content
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		m := by[kind]
		shown := m.Schema
		if m.Event.Ref != "" {
			shown = m.Event
		}
		c := content{Kind: kind, Type: shown.text(), Fields: d.members(shown)}
		if len(m.Example) > 0 {
			c.Examples = append(c.Examples, sample{Text: indented(m.Example)})
		}
		for _, name := range slices.Sorted(maps.Keys(m.Examples)) {
			c.Examples = append(c.Examples, sample{name, indented(m.Examples[name].Value)})
		}
		list = append(list, c)
	}
	return list
}

// members are the fields of a body. The data of an envelope, which all answers
// have alike, is opened as well.
func (d document) members(s schema) []field {
	body := d.named(s)
	fields := body.fields("")
	if data, ok := body.Properties["data"]; ok && data.Ref != "" {
		fields = append(fields, d.named(data).fields("data.")...)
	}
	return fields
}

// named is the schema that a reference names, or the schema itself.
func (d document) named(s schema) schema {
	if s.Ref == "" {
		return s
	}
	return d.Components.Schemas[s.name()]
}

// indented shows JSON; a text as it is.
func indented(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Indent(&b, value, "", "  ") != nil {
		return string(value)
	}
	return b.String()
}

// line shows a value in a row of a table.
func line(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

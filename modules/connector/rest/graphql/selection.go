package graphql

import (
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

const (
	// maxSelected is how many fields a tool asks for by itself.
	maxSelected = 100
	// maxTypes is how many types of a union or an interface it looks into.
	maxTypes = 10
	// maxValues is how many values of an enum stand in the type of a result.
	maxValues = 30
)

// plan is how much is selected: so many levels of objects, and in those below the
// first one only what names a thing.
type plan struct {
	levels int
	brief  bool
}

// plans are tried in this order; the first with at most maxSelected fields is
// taken, or the last.
func plans() []plan {
	return []plan{{3, false}, {2, false}, {3, true}, {2, true}, {1, false}}
}

// selection is the selection set of a type, and what comes back.
type selection struct {
	text   string
	fields int
	schema *jsontree.Object
}

// selector writes selection sets.
type selector struct {
	schema *ast.Schema
	plan   plan
}

// selectionOf is what a tool asks for where its caller does not choose: scalars
// and enums. It leaves out what needs arguments, what is deprecated, further
// pages within pages, and every type within itself.
func selectionOf(schema *ast.Schema, t *ast.Type) selection {
	var s selection
	def := schema.Types[t.Name()]
	for _, p := range plans() {
		s = selector{schema, p}.of(def, nil)
		if s.fields <= maxSelected {
			break
		}
	}
	s.schema = wrapped(t, s.schema)
	return s
}

// wrapped puts a type into the lists around it.
func wrapped(t *ast.Type, inner *jsontree.Object) *jsontree.Object {
	out := inner
	if t.Elem != nil {
		out = object("type", "array", "items", wrapped(t.Elem, inner))
	}
	if t.NonNull {
		return out
	}
	return nullable(out)
}

// of selects from a type. within are the types that it is in.
func (s selector) of(def *ast.Definition, within []string) selection {
	within = append(slices.Clone(within), def.Name)
	set := &set{selector: s, within: within, properties: jsontree.NewObject()}
	switch {
	case isConnection(def):
		set.connection(def)
	case def.Kind == ast.Union, def.Kind == ast.Interface:
		set.abstract(def)
	default:
		set.all(def)
	}
	if len(set.texts) == 0 {
		set.typename()
	}
	out := object("type", "object", "properties", set.properties)
	if len(set.required) > 0 {
		out.Set("required", set.required)
	}
	return selection{text: "{ " + strings.Join(set.texts, " ") + " }", fields: set.fields, schema: out}
}

// level is how many objects a type is in, besides the wrappers of pages.
func (s selector) level(within []string) int {
	n := 0
	for _, name := range within {
		if !isConnection(s.schema.Types[name]) && !isEdge(s.schema.Types[name]) {
			n++
		}
	}
	return n
}

// set is a selection set that is being written.
type set struct {
	selector

	within     []string
	texts      []string
	fields     int
	properties *jsontree.Object
	required   []any
}

func (s *set) typename() {
	s.add("__typename", "__typename", object("type", "string"))
}

func (s *set) add(text, name string, schema *jsontree.Object) {
	s.texts = append(s.texts, text)
	s.fields++
	s.properties.Set(name, schema)
	s.required = append(s.required, name)
}

// all adds the fields of a type, its leaves first.
func (s *set) all(def *ast.Definition) {
	for _, leaves := range []bool{true, false} {
		for _, f := range def.Fields {
			if s.schema.Types[f.Type.Name()].IsLeafType() == leaves {
				s.field(f)
			}
		}
	}
}

// field adds a field, unless it is one of those that are left out.
func (s *set) field(f *ast.FieldDefinition) {
	def := s.schema.Types[f.Type.Name()]
	if strings.HasPrefix(f.Name, "__") || f.Directives.ForName("deprecated") != nil || needsArguments(f) {
		return
	}
	if def.IsLeafType() {
		if s.plan.brief && s.level(s.within) > 1 && !labels(f.Name) {
			return
		}
		s.add(f.Name, f.Name, described(wrapped(f.Type, leaf(def)), f.Description))
		return
	}
	inner := s.level(append(slices.Clone(s.within), def.Name))
	if inner > s.plan.levels || slices.Contains(s.within, def.Name) || isConnection(def) || isPaged(f) {
		return
	}
	sub := s.of(def, s.within)
	s.fields += sub.fields
	s.add(f.Name+" "+sub.text, f.Name, described(wrapped(f.Type, sub.schema), f.Description))
}

// connection adds a page: the things of it, and where the next one begins.
func (s *set) connection(def *ast.Definition) {
	paths := []string{"nodes", "edges"}
	for _, f := range def.Fields {
		inner := s.schema.Types[f.Type.Name()]
		switch {
		case needsArguments(f) || f.Directives.ForName("deprecated") != nil:
		case inner.IsLeafType():
			s.field(f)
		case f.Name == "pageInfo", slices.Contains(paths, f.Name):
			if f.Name == "edges" && s.properties.Has("nodes") || f.Name == "edges" && def.Fields.ForName("nodes") != nil {
				continue
			}
			sub := selector{s.schema, s.plan}.of(inner, s.within)
			s.fields += sub.fields
			s.add(f.Name+" "+sub.text, f.Name, wrapped(f.Type, sub.schema))
		}
	}
}

// abstract adds what an interface has, and the leaves of each type that it, or a
// union, may be.
func (s *set) abstract(def *ast.Definition) {
	s.typename()
	s.all(def)
	possible := slices.Clone(s.schema.GetPossibleTypes(def))
	slices.SortFunc(possible, func(a, b *ast.Definition) int { return strings.Compare(a.Name, b.Name) })
	if len(possible) > maxTypes {
		return
	}
	types := map[string]string{} // of the fields within fragments, by what they are called in the result
	for _, t := range possible {
		var texts []string
		for _, f := range t.Fields {
			of := s.schema.Types[f.Type.Name()]
			if !of.IsLeafType() || def.Fields.ForName(f.Name) != nil || needsArguments(f) || f.Directives.ForName("deprecated") != nil {
				continue
			}
			if s.plan.brief && !labels(f.Name) {
				continue
			}
			text, name := f.Name, f.Name
			if other, ok := types[name]; ok && other != f.Type.String() {
				name = t.Name + "_" + f.Name // two fields of one name must have one type
				text = name + ": " + f.Name
			}
			types[name] = f.Type.String()
			texts = append(texts, text)
			s.properties.Set(name, described(wrapped(f.Type, leaf(of)), f.Description))
		}
		if len(texts) > 0 {
			s.fields += len(texts)
			s.texts = append(s.texts, "... on "+t.Name+" { "+strings.Join(texts, " ")+" }")
		}
	}
}

// leaf is the schema of a scalar or an enum in a result.
func leaf(def *ast.Definition) *jsontree.Object {
	switch {
	case def.Kind == ast.Scalar:
		return scalar(def)
	case len(def.EnumValues) > maxValues:
		return object("type", "string", "description", "A "+def.Name)
	}
	return object("enum", enum(def))
}

// needsArguments reports whether a field cannot be asked for without arguments.
func needsArguments(f *ast.FieldDefinition) bool {
	return slices.ContainsFunc(f.Arguments, func(a *ast.ArgumentDefinition) bool { return a.Type.NonNull && a.DefaultValue == nil })
}

// isPaged reports whether a field has pages: many things, of which servers give
// some, or refuse to give any without a number.
func isPaged(f *ast.FieldDefinition) bool {
	return slices.ContainsFunc(f.Arguments, func(a *ast.ArgumentDefinition) bool {
		return slices.Contains([]string{"first", "last", "limit", "take", "pageSize", "perPage"}, a.Name)
	})
}

// isConnection reports whether a type is a page of the Relay form.
func isConnection(def *ast.Definition) bool {
	return def.Kind == ast.Object && def.Fields.ForName("pageInfo") != nil && (def.Fields.ForName("nodes") != nil || def.Fields.ForName("edges") != nil)
}

// isEdge reports whether a type is one thing of such a page, or its page info.
func isEdge(def *ast.Definition) bool {
	return def.Kind == ast.Object && (def.Fields.ForName("node") != nil && def.Fields.ForName("cursor") != nil || def.Name == "PageInfo")
}

// labels reports whether a field names the thing that it is of.
func labels(name string) bool {
	return slices.Contains([]string{"id", "name", "title", "key", "code", "slug", "login", "number", "email", "url", "type", "state", "status"}, name)
}

// Package exchange makes the requests of tools that are written in GraphQL, and
// reads what comes back.
package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/formatter"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/portico-run/portico/internal/schema/shared"
	"github.com/portico-run/portico/modules/toolset"
)

// Limits of a selection set that a caller chooses.
const (
	MaxFields = 16 << 10 // characters
	maxTokens = 4000
)

// Types reads the definitions that a toolset keeps; nil where it keeps none.
func Types(schemas shared.Schemas) (*ast.Schema, error) {
	var names []string
	for name := range schemas {
		if strings.HasPrefix(name, toolset.GraphQLTypes) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil //nolint:nilnil // a toolset need not keep any
	}
	slices.Sort(names)
	var sources []*ast.Source
	for _, name := range names {
		var piece struct {
			Text string `json:"$comment"`
		}
		if err := json.Unmarshal(schemas[name], &piece); err != nil {
			return nil, fmt.Errorf("schema %s: %w", name, err)
		}
		sources = append(sources, &ast.Source{Name: name, Input: piece.Text})
	}
	schema, err := gqlparser.LoadSchema(sources...)
	if err != nil {
		return nil, fmt.Errorf("the definitions of the toolset: %w", err)
	}
	return schema, nil
}

// Select puts a caller's selection set in place of the one that a tool has. The
// error says what is wrong with the selection set.
func Select(types *ast.Schema, g toolset.GraphQL, fields string) (string, error) {
	doc, err := parser.ParseQuery(&ast.Source{Input: g.Query})
	if err != nil {
		return "", fmt.Errorf("the tool's own request cannot be read: %w", err)
	}
	root := rootOf(doc, g.Root)
	if root == nil {
		return "", errors.New("the tool's own request does not have its root field")
	}
	if root.SelectionSet, err = parseFields(fields); err != nil {
		return "", err
	}
	// Written and read again: what is checked is what is sent.
	var b strings.Builder
	formatter.NewFormatter(&b, formatter.WithCompacted()).FormatQueryDocument(doc)
	whole, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: b.String()}, maxTokens)
	if err != nil {
		return "", message(err)
	}
	if problems := validator.ValidateWithRules(types, whole, rules.NewDefaultRules()); len(problems) > 0 {
		return "", errors.New(Joined(problems))
	}
	return b.String(), nil
}

// Joined are the first problems of a request, in the same order every time.
func Joined(problems gqlerror.List) string {
	texts := make([]string, len(problems))
	for i, p := range problems {
		texts[i] = p.Message
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	return strings.Join(texts[:min(len(texts), maxErrors)], " ")
}

// parseFields reads a selection set, with its braces or without. It is one and
// nothing else: no second operation and no fragments of its own.
func parseFields(fields string) (ast.SelectionSet, error) {
	text := strings.TrimSpace(fields)
	if !strings.HasPrefix(text, "{") {
		text = "{" + text + "\n}" // a comment ends with its line
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: text}, maxTokens)
	if err != nil {
		return nil, message(err)
	}
	if len(doc.Operations) != 1 || len(doc.Fragments) > 0 || doc.Operations[0].Operation != ast.Query || doc.Operations[0].Name != "" {
		return nil, errors.New("must be one selection set, such as id name owner { login }")
	}
	return doc.Operations[0].SelectionSet, nil
}

func message(err error) error {
	_, text, found := strings.Cut(err.Error(), ": ")
	if !found {
		text = err.Error()
	}
	return errors.New(text)
}

// rootOf finds the field of a request that a tool returns: the only one of its
// only operation. It is nil where the request is not of that form.
func rootOf(doc *ast.QueryDocument, name string) *ast.Field {
	if len(doc.Operations) != 1 || len(doc.Operations[0].SelectionSet) != 1 {
		return nil
	}
	f, ok := doc.Operations[0].SelectionSet[0].(*ast.Field)
	if !ok || f.Alias != name {
		return nil
	}
	return f
}

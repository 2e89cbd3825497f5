package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// operation is one of the document.
type operation struct {
	Operation

	item, node node
	id         string // operationId
}

// verbs are the HTTP methods of tools, and others those that documents have
// besides.
func verbs() (tools, others []string) {
	return []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		[]string{http.MethodOptions, http.MethodTrace, "QUERY"}
}

// choose returns the operations that are wanted, by path.
func (c *converter) choose() ([]operation, error) {
	var out []operation
	tools, others := verbs()
	known := map[string]bool{}
	names := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(c.doc.object("paths").value)) {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		c.current = path
		item, err := c.item(path)
		if err != nil {
			c.lose("", "%s", err)
			continue
		}
		for _, verb := range slices.Concat(tools, others) {
			op := item.object(strings.ToLower(verb))
			if !item.has(strings.ToLower(verb)) {
				continue
			}
			one := operation{Operation: Operation{Method: verb, Path: path}, item: item, node: op, id: op.text("operationId")}
			c.current = verb + " " + path
			known[one.id] = true
			c.describe(&one, names)
			if !c.wanted(one) {
				continue
			}
			switch {
			case op.value == nil:
				c.lose("", "it is no object")
			case slices.Contains(others, verb):
				c.lose("", "a tool cannot have the HTTP method %s", verb)
			default:
				out = append(out, one)
			}
		}
	}
	for _, id := range c.options.Operations {
		if !known[id] && !slices.ContainsFunc(out, func(o operation) bool { return o.Name == id }) {
			return nil, fmt.Errorf("there is no operation %q", id)
		}
	}
	if len(out) == 0 && len(known) == 0 && len(c.left) == 0 {
		return nil, errors.New("the document has no operation")
	}
	if len(out) == 0 && len(c.left) == 0 {
		return nil, errNoneChosen
	}
	return out, nil
}

var errNoneChosen = errors.New("no operation of the document is chosen: --list shows those that it has")

// item is what stands at a path, with what it refers to elsewhere.
func (c *converter) item(path string) (node, error) {
	n := c.doc.object("paths").object(path)
	if n.value == nil {
		return n, errors.New("it is no object")
	}
	target, ref, err := c.docs.follow(n)
	if err != nil || ref == "" {
		return target, err
	}
	if len(n.value) == 1 || target.in != n.in {
		return target, nil
	}
	value := maps.Clone(target.value)
	maps.Copy(value, n.value)
	delete(value, "$ref")
	return node{n.in, value}, nil
}

// describe says what an operation is called and what it does. The name is that
// of its operationId; where two have the same, the second is named by its path.
func (c *converter) describe(o *operation, taken map[string]bool) {
	o.ReadOnly = o.Method == http.MethodGet || o.Method == http.MethodHead
	o.Summary = strings.TrimSpace(o.node.text("summary"))
	if o.Summary == "" {
		o.Summary, _, _ = strings.Cut(strings.TrimSpace(o.node.text("description")), "\n")
	}
	for _, t := range o.node.list("tags") {
		if tag, ok := t.(string); ok && !slices.Contains(o.Tags, tag) {
			o.Tags = append(o.Tags, tag)
		}
	}
	byPath := nameOf(strings.ToLower(o.Method) + "_" + o.Path)
	o.Name = short(nameOf(o.id))
	if o.Name == "" {
		o.Name = short(byPath)
	}
	if taken[o.Name] {
		before := o.Name
		if o.Name = short(byPath); taken[o.Name] {
			o.Name = short(byPath + "_" + digest(o.Method+" "+o.Path))
		}
		c.note("%s %s is called %s: another operation is called %s", o.Method, o.Path, o.Name, before)
	}
	taken[o.Name] = true
}

func (c *converter) wanted(o operation) bool {
	if c.options.ReadOnly && !o.ReadOnly {
		return false
	}
	if len(c.options.Tags)+len(c.options.Operations) == 0 {
		return true
	}
	if slices.ContainsFunc(c.options.Operations, func(id string) bool { return id == o.id && id != "" || id == o.Name }) {
		return true
	}
	return slices.ContainsFunc(o.Tags, func(tag string) bool { return slices.Contains(c.options.Tags, tag) })
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9]+`)

// nameOf is an operationId as the name of a method.
func nameOf(id string) string { return strings.Trim(notInName.ReplaceAllString(id, "_"), "_") }

// maxName is the longest name of a method that is made here, in bytes.
const maxName = 100

// short cuts a long name and makes it one of its own.
func short(name string) string {
	if len(name) <= maxName {
		return name
	}
	return name[:maxName-9] + "_" + digest(name)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

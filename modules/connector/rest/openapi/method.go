package openapi

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/sandbox/stub"
	"github.com/portico-run/portico/modules/toolset"
)

// builder makes one method.
type builder struct {
	*converter

	operation  operation
	method     *method
	adapter    *adapter
	properties schema
	required   []string
	// explicit says that every parameter of the query is listed: what is not goes
	// into the body.
	explicit bool
}

func (c *converter) method(o operation) (method, error) {
	path, _, _ := strings.Cut(o.Path, "#") // some write two operations of one path so
	m := method{Name: o.Name, Endpoint: path, Method: o.Method, Description: strings.TrimSpace(o.node.text("summary") + "\n" + o.node.text("description"))}
	b := &builder{converter: c, operation: o, method: &m, properties: schema{}, adapter: &adapter{}}
	if err := c.served(o); err != nil {
		return m, err
	}
	base, err := c.serverOf(o)
	if err != nil {
		return m, err
	}
	parameters, body, err := b.inputs()
	if err != nil {
		return m, err
	}
	b.explicit = !o.ReadOnly || body.value != nil
	for _, p := range parameters {
		if err := b.parameter(p); err != nil {
			return m, err
		}
	}
	b.undeclared()
	if err := b.body(body); err != nil {
		return m, err
	}
	m.Response = b.response()
	if base != "" {
		m.Endpoint = base + m.Endpoint
	}
	m.Request = schema{"type": "object", "properties": b.properties, "additionalProperties": false}
	if len(b.required) > 0 {
		slices.Sort(b.required)
		m.Request["required"] = slices.Compact(b.required)
	}
	if !b.adapter.empty() {
		m.Adapter = b.adapter
	}
	if n := len(o.node.object("callbacks").value); n > 0 {
		c.note("%s: %d callbacks are ignored: they are requests that the API makes, not tools", c.current, n)
	}
	return m, nil
}

// inputs are the parameters of a path and of one of its operations, and the
// body. The operation's parameter takes the place of the path's that has its
// name and is in the same part of the request.
func (b *builder) inputs() ([]node, node, error) {
	var all []node
	for _, from := range []node{b.operation.item, b.operation.node} {
		for _, v := range from.list("parameters") {
			p, ref, err := b.docs.follow(from.of(v))
			if err != nil {
				return nil, node{}, err
			}
			if p.text("name") == "" || p.text("in") == "" && !p.has("schema") {
				b.lose("a parameter", "it has no name and no place")
				continue
			}
			if p.text("in") == "body" { // one at most: its name means nothing
				p = merged(p, map[string]any{"name": "body"})
			}
			p = merged(p, map[string]any{refKey: ref})
			i := slices.IndexFunc(all, func(had node) bool { return had.text("name") == p.text("name") && had.text("in") == p.text("in") })
			if i < 0 {
				all = append(all, p)
			} else {
				all[i] = p
			}
		}
	}
	if b.swagger {
		return b.modern(all)
	}
	body, _, err := b.docs.follow(b.operation.node.object("requestBody"))
	order := func(p node) int { return slices.Index(places(), p.text("in")) }
	slices.SortStableFunc(all, func(a, b node) int { return order(a) - order(b) })
	return all, body, err
}

// refKey is where a parameter keeps the reference that led to it; no document
// has such a member.
const refKey = "\x00ref"

// places are the parts of a request in the order in which their parameters take
// names: who comes first keeps its own.
func places() []string {
	return []string{toolset.InPath, toolset.InQuery, toolset.InHeader, toolset.InCookie, toolset.InBody}
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// argument is what a parameter is called in calls: its name, as code may write
// it, after its place where another parameter has the name.
func (b *builder) argument(in, name string) string {
	plain := name
	if in == toolset.InHeader || !identifier.MatchString(name) {
		plain = nameOf(name)
	}
	switch {
	case plain == "":
		plain = "value"
	case plain[0] >= '0' && plain[0] <= '9':
		plain = "_" + plain
	}
	if !b.taken(plain) {
		return plain
	}
	for plain = in + "_" + plain; b.taken(plain); {
		plain += "_"
	}
	return plain
}

func (b *builder) taken(name string) bool {
	_, has := b.properties[name]
	return has || name == stub.FileTitle
}

func (b *builder) add(argument string, s any, required bool) {
	b.properties[argument] = s
	if required {
		b.required = append(b.required, argument)
	}
}

// place says where an argument goes that does not go there by itself.
func (b *builder) place(argument, name string, p parameter) {
	if argument != name {
		p.Name = name
	}
	if b.adapter.Parameters == nil {
		b.adapter.Parameters = map[string]parameter{}
	}
	b.adapter.Parameters[argument] = p
}

var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

// undeclared makes parameters of the places of a path that have none.
func (b *builder) undeclared() {
	for _, match := range placeholder.FindAllStringSubmatch(b.method.Endpoint, -1) {
		if _, has := b.properties[match[1]]; has {
			continue
		}
		b.note("%s: {%s} in the path is no parameter of the document; it takes text", b.current, match[1])
		argument := b.argument(toolset.InPath, match[1])
		b.rename(match[1], argument)
		b.add(argument, schema{"type": "string"}, true)
	}
}

// rename writes another name into a place of the path.
func (b *builder) rename(name, argument string) {
	b.method.Endpoint = strings.ReplaceAll(b.method.Endpoint, "{"+name+"}", "{"+argument+"}")
}

// serverOf is where an operation is that is elsewhere than the others; empty for
// one that is not.
func (c *converter) serverOf(o operation) (string, error) {
	for _, at := range []node{o.node, o.item} {
		if list := at.list("servers"); len(list) > 0 && c.options.Domain == "" {
			base, err := c.firstServer(at, list)
			if err != nil || base == c.domain {
				return "", err
			}
			u, err := url.Parse(base)
			if err != nil || u.RawQuery != "" {
				return "", errNoServer
			}
			return base, nil
		}
	}
	if schemes := o.node.list("schemes"); c.swagger && len(schemes) > 0 && c.options.Domain == "" {
		u, err := url.Parse(c.domain)
		if err == nil && !slices.Contains(schemes, any(u.Scheme)) {
			if s, _ := schemes[0].(string); s == "http" || s == "https" {
				u.Scheme = s
				return u.String(), nil
			}
		}
	}
	return "", nil
}

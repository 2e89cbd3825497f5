package file

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/shared"
	"github.com/portico-run/portico/modules/toolset"
)

func (c *checker) method(s methodSpec, domain string) toolset.Method {
	c.shape(s.form)
	m := toolset.Method{
		Name: s.Name.value, Version: max(s.Version, 1), Description: s.Description.value,
		Endpoint: c.expand(s.Endpoint.line, s.Endpoint.value), HTTPMethod: strings.ToUpper(s.Method.value), Adapter: s.Adapter.Adapter,
		Request: c.schema(s.Request, request, `{"type":"object"}`), Response: c.schema(s.Response, "response", `{}`),
	}
	m.AllowedCallers = c.callers(s)
	m.Approval = c.oneOf(s.Approval, "approval", "", "never", "first", "always")
	m.Effect = effect(s)
	if c.schemas != nil {
		m.Shared = &shared.Set{Schemas: c.schemas}
	}
	m.Rules, m.TokenPricing = c.formula(s, m)
	switch {
	case m.Name == "":
		c.problem(s.line, "a method has no name")
	case !methodForm.MatchString(m.Name):
		c.problem(s.Name.line, "method name %q must be up to 128 letters, digits, and _ . : -", m.Name)
	}
	if m.HTTPMethod == "" {
		m.HTTPMethod = "POST"
	}
	if !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, m.HTTPMethod) {
		c.problem(s.Method.line, "HTTP method %q must be GET, HEAD, POST, PUT, PATCH or DELETE", m.HTTPMethod)
	}
	c.endpoint(s, m, domain)
	if s.Version < 0 || s.Version > maxVersion {
		c.problem(s.line, "the version of %q must be 1 to %d", m.Name, maxVersion)
	}
	if m.Adapter.TimeoutMS < 0 {
		c.problem(s.line, "the timeout of %q is negative", m.Name)
	}
	if p := m.Adapter.Polling; p != nil {
		c.polling(s, *p, domain)
	}
	if m.Adapter.GraphQL != nil {
		c.graphql(s, m)
	}
	if r := m.Adapter.MaxRetries; r != nil && (*r < 0 || *r > 10) {
		c.problem(s.line, "maxRetries of %q must be 0 to 10", m.Name)
	}
	for name, value := range m.Adapter.Headers {
		if !headerName.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") {
			c.problem(s.line, "header %q of %q cannot be sent", name, m.Name)
		}
		m.Adapter.Headers[name] = c.expand(s.line, value)
	}
	c.parameters(s, m)
	return m
}

// effect is what a file says that a method does; empty where it says nothing.
func effect(s methodSpec) string {
	switch {
	case s.ReadOnly == nil:
		return ""
	case *s.ReadOnly:
		return toolset.EffectRead
	}
	return toolset.EffectWrite
}

// parameters checks where arguments go.
func (c *checker) parameters(s methodSpec, m toolset.Method) {
	if b := m.Adapter.Body; b != "" && b != toolset.BodyNone && b != toolset.BodyOptional {
		c.problem(s.line, "body of %q must be none or optional", m.Name)
	}
	for name, p := range m.Adapter.Parameters {
		switch {
		case !slices.Contains([]string{toolset.InPath, toolset.InQuery, toolset.InHeader, toolset.InCookie, toolset.InBody}, p.In):
			c.problem(s.line, "parameter %q of %q: in must be path, query, header, cookie or body", name, m.Name)
		case p.Style != "" && !toolset.KnowsStyle(p.In, p.Style):
			c.problem(s.line, "parameter %q of %q: a parameter in %s has no style %q", name, m.Name, p.In, p.Style)
		case (p.In == toolset.InHeader || p.In == toolset.InCookie) && !headerName.MatchString(cmp.Or(p.Name, name)):
			c.problem(s.line, "parameter %q of %q cannot be sent as %q", name, m.Name, cmp.Or(p.Name, name))
		case strings.ContainsAny(p.Name+p.ContentType, "\r\n\x00"):
			c.problem(s.line, "parameter %q of %q holds a line break", name, m.Name)
		}
	}
}

// maxVersion is the largest version of a method; the database keeps 32 bits.
const maxVersion = 1_000_000_000

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

// endpoint checks that a method's address is one, and that its placeholders
// are parameters.
func (c *checker) endpoint(s methodSpec, m toolset.Method, domain string) {
	plain := placeholder.ReplaceAllString(m.Endpoint, "x")
	switch {
	case m.Endpoint == "":
		c.problem(s.line, "method %q has no endpoint", m.Name)
		return
	case strings.HasPrefix(m.Endpoint, "/") && domain == "":
		c.problem(s.Endpoint.line, "endpoint %q is a path, and the toolset has no domain", s.Endpoint.value)
	case !strings.HasPrefix(m.Endpoint, "/") && !isURL(plain):
		c.problem(s.Endpoint.line, "endpoint %q must be an http or https URL without credentials, or a path that begins with /", s.Endpoint.value)
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(m.Request, &schema) != nil {
		return // reported with the schema
	}
	for _, match := range placeholder.FindAllStringSubmatch(m.Endpoint, -1) {
		if _, ok := schema.Properties[match[1]]; !ok {
			c.problem(s.Endpoint.line, "{%s} in the endpoint is no parameter of %q", match[1], m.Name)
		}
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(m.Endpoint, "https://"), "http://"), "/")
	if !strings.HasPrefix(m.Endpoint, "/") && strings.ContainsAny(host, "{}") {
		c.problem(s.Endpoint.line, "a parameter must not choose the host: the credential would go there")
	}
}

// request is what files call the schema of the arguments.
const request = "request"

// schema reads a schema; absent is what it is where the file has none: of a
// response nothing is known then.
func (c *checker) schema(t tree, name, absent string) json.RawMessage {
	if t.node == nil {
		return json.RawMessage(absent)
	}
	raw, err := toJSON(t.node)
	if err == nil {
		err = c.compiles(raw)
	}
	if err == nil && name == request && shared.IsReference(raw) {
		raw = slices.Clone(c.buffer) // names of arguments are read where they are stored
	}
	if err != nil {
		c.problem(t.node.Line, "%s is not a valid JSON Schema: %s", name, strings.ReplaceAll(err.Error(), "\n", " "))
		return json.RawMessage(`{}`)
	}
	return raw
}

// polling checks how a method waits for its upstream.
func (c *checker) polling(s methodSpec, p toolset.Polling, domain string) {
	switch {
	case !strings.Contains(p.StatusURL, "{id}") && !strings.Contains(p.StatusURL, "{task_id}") && len(p.StatusBody) == 0:
		c.problem(s.line, "polling of %q: statusUrl must hold {id}, which stands for the task", s.Name.value)
	case !isURL(p.StatusURL) && (!strings.HasPrefix(p.StatusURL, "/") || domain == ""):
		c.problem(s.line, "polling of %q: statusUrl %q must be a URL, or a path of the toolset's domain", s.Name.value, p.StatusURL)
	case p.MaxWaitSeconds < 0 || p.IntervalSeconds < 0:
		c.problem(s.line, "polling of %q: a time is negative", s.Name.value)
	case p.StatusMethod != "" && !slices.Contains([]string{"GET", "POST"}, strings.ToUpper(p.StatusMethod)):
		c.problem(s.line, "polling of %q: statusMethod must be GET or POST", s.Name.value)
	}
}

// callers reads who may call a method.
func (c *checker) callers(s methodSpec) string {
	var names []string
	for _, t := range s.Callers {
		if t.value != toolset.CallDirect && t.value != toolset.CallCode {
			c.problem(t.line, "allowedCallers of %q: %q must be direct or code", s.Name.value, t.value)
			continue
		}
		if !slices.Contains(names, t.value) {
			names = append(names, t.value)
		}
	}
	return strings.Join(names, ",")
}

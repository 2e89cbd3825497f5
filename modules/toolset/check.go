package toolset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/ptc"
)

// item is a toolset of a file, checked and ready to be stored.
type item struct {
	file                              string
	line                              int
	key, name, domain, kind, authType string
	labels, descriptions              string // JSON
	enabled, global                   bool
	credential                        []byte // JSON, not sealed; nil for none
	egress                            string // JSON; empty for none
	prices                            string // JSON; empty for none
	patterns, items, config           string // JSON; config is empty for none
	methods                           []Method
}

// checker turns specs into items and collects what is wrong with them.
type checker struct {
	file      string
	variables map[string]string
	pricer    *billing.Pricer
	coded     []string // keys whose tools are code
	problems  []FileProblem
}

func (c *checker) problem(line int, format string, args ...any) {
	c.problems = append(c.problems, FileProblem{File: c.file, Line: line, Message: fmt.Sprintf(format, args...)})
}

// shape reports what is wrong in the form of a mapping.
func (c *checker) shape(f form) {
	for _, p := range f.problems {
		c.problems = append(c.problems, problemOf(c.file, p))
	}
}

var (
	keyForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	methodForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$`)
	variable   = regexp.MustCompile(`\$\{([A-Za-z0-9_]*)\}`)
)

// keyPlace stays in headers: the credential takes it when a call is made.
const keyPlace = "apiKey"

// expand replaces ${NAME} in a text.
func (c *checker) expand(line int, text string) string {
	return variable.ReplaceAllStringFunc(text, func(place string) string {
		name := place[2 : len(place)-1]
		value, ok := c.variables[name]
		switch {
		case name == keyPlace:
			return place
		case !ok:
			c.problem(line, "the variable %s is not set", place)
		}
		return value
	})
}

func (c *checker) check(s spec) item {
	c.shape(s.form)
	i := item{
		file: c.file, line: s.line,
		key: s.Key.value, name: s.Name.value, domain: strings.TrimSuffix(c.expand(s.Domain.line, s.Domain.value), "/"),
		enabled: s.Enabled == nil || *s.Enabled, global: s.Global == nil || *s.Global,
		labels: dictionary(s.Labels), descriptions: dictionary(s.Descriptions),
	}
	c.names(s, i)
	c.kinds(s, &i)
	if i.domain != "" && !isURL(i.domain) {
		c.problem(s.Domain.line, "domain %q must be an http or https URL without credentials", s.Domain.value)
	}
	i.credential = c.credential(s.Credential)
	i.egress = c.egress(s.Egress)
	c.installation(s, &i)
	if i.kind == typeOAuth || i.kind == typeAPIKey {
		i.prices = c.providedPrices(s)
		if len(s.Methods) > 0 {
			c.problem(s.line, "the tools of a toolset of type %s are listed by its provider, not here", i.kind)
		}
		return i
	}
	c.tools(s, &i)
	return i
}

// names checks what a toolset is called.
func (c *checker) names(s spec, i item) {
	switch {
	case i.key == "":
		c.problem(s.line, "key is missing")
	case !keyForm.MatchString(i.key):
		c.problem(s.Key.line, "key %q must be up to 64 letters, digits, and _ . -, and start with a letter or digit", i.key)
	case ptc.IsBuiltin(i.key):
		c.problem(s.Key.line, "key %q is the name of a builtin tool", i.key)
	}
	if i.name == "" {
		c.problem(s.line, "name is missing")
	}
	for _, texts := range []map[string]string{s.Labels, s.Descriptions} {
		for language, value := range texts {
			if value == "" {
				c.problem(s.line, "the text for %q is empty; put texts that hold a comma in quotes", language)
			}
		}
	}
}

// kinds reads what executes a toolset.
func (c *checker) kinds(s spec, i *item) {
	i.kind = c.oneOf(s.Type, "type", typeRegular, typeRegular, typeOAuth, typeAPIKey)
	usual := map[string]string{typeOAuth: authOAuth, typeAPIKey: authExternalKey}[i.kind]
	provided := usual != ""
	if !provided {
		usual = authConfigBased
	}
	i.authType = c.oneOf(s.AuthType, "authType", usual, authConfigBased, authCredentials, authOAuth, authExternalKey)
	if provided && i.authType != usual || i.kind == typeRegular && (i.authType == authOAuth || i.authType == authExternalKey) {
		c.problem(s.AuthType.line, "authType %q does not go with type %q", i.authType, i.kind)
	}
}

// tools checks the methods of a toolset and what they cost.
func (c *checker) tools(s spec, i *item) {
	names := map[string]bool{}
	newest := map[string]Method{}
	for _, spec := range s.Methods {
		if names[spec.Name.value] {
			c.problem(spec.Name.line, "method %q is there twice", spec.Name.value)
		}
		if spec.Name.value != "" {
			names[spec.Name.value] = true
		}
		m := c.method(spec, i.domain)
		i.methods = append(i.methods, m)
		if m.Name != "" && newest[m.Name].Version <= m.Version {
			newest[m.Name] = m
		}
	}
	if slices.Contains(c.coded, i.key) {
		if len(i.methods) > 0 || s.Billing.node != nil {
			c.problem(s.line, "the tools of %s are part of this server, and so is what they cost", i.key)
		}
		return
	}
	if len(i.methods) == 0 {
		c.problem(s.line, "methods are missing")
	}
	i.prices = c.prices(s, slices.Collect(maps.Values(newest)))
}

func dictionary(d map[string]string) string {
	if d == nil {
		d = map[string]string{}
	}
	text, _ := json.Marshal(d) // strings always have a JSON form
	return string(text)
}

func (c *checker) oneOf(t text, name, otherwise string, values ...string) string {
	if t.value == "" {
		return otherwise
	}
	if !slices.Contains(values, t.value) {
		c.problem(t.line, "%s %q must be one of %s", name, t.value, strings.Join(values, ", "))
	}
	return t.value
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

func (c *checker) credential(s *credentialSpec) []byte {
	if s == nil {
		return nil
	}
	c.shape(s.form)
	t := CredentialType(c.oneOf(s.Type, "credential type", string(Automatic),
		string(Automatic), string(Header), string(Bearer), string(Basic), string(Query), string(Volcengine)))
	out := stored{
		Type: t, Name: s.Name.value,
		Username: c.expand(s.Username.line, s.Username.value), Value: c.expand(s.Value.line, s.Value.value),
	}
	switch {
	case s.Value.value == "":
		c.problem(s.line, "the credential has no value")
	case (t == Header || t == Query) && out.Name == "":
		c.problem(s.line, "a credential of type %s needs a name", t)
	case (t == Basic || t == Volcengine) && s.Username.value == "":
		c.problem(s.line, "a credential of type %s needs a username", t)
	case t == Volcengine && strings.Count(out.Name, "/") != 1:
		c.problem(s.line, "a credential of type volcengine needs a name such as cn-north-1/cv, the region and the service")
	case strings.ContainsAny(out.Name+out.Username+out.Value, "\r\n"):
		c.problem(s.line, "the credential holds a line break")
	}
	plain, _ := json.Marshal(out) //nolint:gosec // sealed before it is stored; strings always have a JSON form
	return plain
}

func (c *checker) egress(s egressSpec) string {
	var prefixes []netip.Prefix
	for _, t := range s.Allow {
		p, err := netip.ParsePrefix(t.value)
		if err != nil {
			c.problem(t.line, "egress %q must be a network such as 10.1.0.0/16", t.value)
			continue
		}
		prefixes = append(prefixes, p.Masked())
	}
	if len(prefixes) == 0 {
		return ""
	}
	text, _ := json.Marshal(prefixes) // networks always have a JSON form
	return string(text)
}

func (c *checker) method(s methodSpec, domain string) Method {
	c.shape(s.form)
	m := Method{
		Name: s.Name.value, Version: max(s.Version, 1), Description: s.Description.value,
		Endpoint: c.expand(s.Endpoint.line, s.Endpoint.value), HTTPMethod: strings.ToUpper(s.Method.value), Adapter: s.Adapter,
		Request: c.schema(s.Request, "request", `{"type":"object"}`), Response: c.schema(s.Response, "response", `{}`),
	}
	m.AllowedCallers = c.callers(s)
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
	if r := m.Adapter.MaxRetries; r != nil && (*r < 0 || *r > 10) {
		c.problem(s.line, "maxRetries of %q must be 0 to 10", m.Name)
	}
	for name, value := range m.Adapter.Headers {
		if !headerName.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") {
			c.problem(s.line, "header %q of %q cannot be sent", name, m.Name)
		}
		m.Adapter.Headers[name] = c.expand(s.line, value)
	}
	return m
}

// maxVersion is the largest version of a method; the database keeps 32 bits.
const maxVersion = 1_000_000_000

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

// endpoint checks that a method's address is one, and that its placeholders
// are parameters.
func (c *checker) endpoint(s methodSpec, m Method, domain string) {
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

// schema reads a schema; absent is what it is where the file has none: of a
// response nothing is known then.
func (c *checker) schema(t tree, name, absent string) json.RawMessage {
	if t.node == nil {
		return json.RawMessage(absent)
	}
	raw, err := toJSON(t.node)
	if err == nil {
		_, err = jsonschema.Compile(raw)
	}
	if err != nil {
		c.problem(t.node.Line, "%s is not a valid JSON Schema: %s", name, strings.ReplaceAll(err.Error(), "\n", " "))
		return json.RawMessage(`{}`)
	}
	return raw
}

// checkFiles reads all files and reports everything that is wrong in them, by
// file and line.
func checkFiles(files []File, variables map[string]string, pricer *billing.Pricer, coded []string) ([]item, []FileProblem) {
	var (
		items    []item
		problems []FileProblem
		seen     = map[string]string{}
	)
	for _, f := range files {
		if f.Err != nil {
			problems = append(problems, FileProblem{File: f.Name, Line: 1, Message: "the file cannot be read: " + f.Err.Error()})
			continue
		}
		specs, wrong := decodeFile(f)
		problems = append(problems, wrong...)
		c := &checker{file: f.Name, variables: variables, pricer: pricer, coded: coded}
		for _, s := range specs {
			i := c.check(s)
			if before, twice := seen[i.key]; twice && i.key != "" {
				c.problem(s.Key.line, "toolset %q is also in %s", i.key, before)
			}
			seen[i.key] = fmt.Sprintf("%s:%d", f.Name, s.Key.line)
			items = append(items, i)
		}
		problems = append(problems, c.problems...)
	}
	return items, problems
}

// joinProblems is all that is wrong, by file and line; nil where nothing is.
func joinProblems(problems []FileProblem) error {
	sortProblems(problems)
	joined := make([]error, len(problems))
	for i, p := range problems {
		joined[i] = p
	}
	return errors.Join(joined...)
}

func sortProblems(problems []FileProblem) {
	slices.SortStableFunc(problems, func(a, b FileProblem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
}

// polling checks how a method waits for its upstream.
func (c *checker) polling(s methodSpec, p Polling, domain string) {
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
		if t.value != callDirect && t.value != callCode {
			c.problem(t.line, "allowedCallers of %q: %q must be direct or code", s.Name.value, t.value)
			continue
		}
		if !slices.Contains(names, t.value) {
			names = append(names, t.value)
		}
	}
	return strings.Join(names, ",")
}

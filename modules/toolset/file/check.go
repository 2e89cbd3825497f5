package file

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/shared"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/store"
)

// item is a toolset of a file, and where it is there.
type item struct {
	store.Spec

	file string
	line int
}

// checker turns specs into items and collects what is wrong with them.
type checker struct {
	file      string
	variables map[string]string
	pricer    *price.Pricer
	kinds     toolset.Kinds
	problems  []Problem
	// schemas are those of the toolset that is being checked, and buffer is where
	// each method's are written out once, to see that they can be. compiled has
	// those with which nothing is wrong.
	schemas  shared.Schemas
	buffer   []byte
	compiled map[string]bool
}

func (c *checker) problem(line int, format string, args ...any) {
	c.problems = append(c.problems, Problem{File: c.file, Line: line, Message: fmt.Sprintf(format, args...)})
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
	i := item{file: c.file, line: s.line, Spec: store.Spec{
		Key: s.Key.value, Name: s.Name.value, Domain: strings.TrimSuffix(c.expand(s.Domain.line, s.Domain.value), "/"),
		Enabled: s.Enabled == nil || *s.Enabled, Global: s.Global == nil || *s.Global,
		Labels: s.Labels, Descriptions: s.Descriptions,
	}}
	c.names(s, i)
	c.kind(s, &i)
	if i.Domain != "" && !isURL(i.Domain) {
		c.problem(s.Domain.line, "domain %q must be an http or https URL without credentials", s.Domain.value)
	}
	i.Credential = c.credential(s.Credential)
	i.Egress = c.egress(s.Egress)
	i.Approval = c.oneOf(s.Approval, "approval", "", "never", "first", "always")
	c.installation(s, &i)
	c.users(s, i)
	c.schemas, c.compiled = c.sharedSchemas(s.Schemas), map[string]bool{}
	i.Schemas = c.schemas
	if kind, known := c.kinds.Offered(i.Type, i.Key); known && kind.Type != toolset.TypeRegular && kind.Type != toolset.TypeOAuth {
		i.Prices = c.providedPrices(s)
		if len(s.Methods) > 0 {
			c.problem(s.line, "the tools of a toolset of type %s are listed by its provider, not here", i.Type)
		}
		return i
	}
	c.tools(s, &i)
	return i
}

// names checks what a toolset is called.
func (c *checker) names(s spec, i item) {
	switch {
	case i.Key == "":
		c.problem(s.line, "key is missing")
	case !keyForm.MatchString(i.Key):
		c.problem(s.Key.line, "key %q must be up to 64 letters, digits, and _ . -, and start with a letter or digit", i.Key)
	case ptc.IsBuiltin(i.Key):
		c.problem(s.Key.line, "key %q is the name of a builtin tool", i.Key)
	}
	if i.Name == "" {
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

// kind reads what executes a toolset. Those of a kind with a type of its own
// have the kind's auth type, and regular ones have none of these.
func (c *checker) kind(s spec, i *item) {
	i.Type = c.oneOf(s.Type, "type", toolset.TypeRegular, c.kinds.Types()...)
	kind, _ := c.kinds.Offered(i.Type, i.Key)
	i.AuthType = c.oneOf(s.AuthType, "authType", cmp.Or(kind.AuthType, toolset.AuthConfigBased), c.kinds.AuthTypes()...)
	by, _ := c.kinds.Installed(i.AuthType, i.Key)
	if kind.AuthType != "" && i.AuthType != kind.AuthType || i.Type == toolset.TypeRegular && by.AuthType != "" {
		c.problem(s.AuthType.line, "authType %q does not go with type %q", i.AuthType, i.Type)
	}
}

// tools checks the methods of a toolset and what they cost.
func (c *checker) tools(s spec, i *item) {
	names := map[string]bool{}
	newest := map[string]toolset.Method{}
	for _, spec := range s.Methods {
		if names[spec.Name.value] {
			c.problem(spec.Name.line, "method %q is there twice", spec.Name.value)
		}
		if spec.Name.value != "" {
			names[spec.Name.value] = true
		}
		m := c.method(spec, i.Domain)
		i.Methods = append(i.Methods, m)
		if made, ok := c.mark(i.Key, spec, m); ok && !slices.Contains(i.Marks, made) {
			i.Marks = append(i.Marks, made)
		}
		if m.Name != "" && newest[m.Name].Version <= m.Version {
			newest[m.Name] = c.priced(m)
		}
	}
	if kind, _ := c.kinds.Offered(i.Type, i.Key); len(kind.Keys) > 0 {
		if len(i.Methods) > 0 || s.Billing.node != nil {
			c.problem(s.line, "the tools of %s are part of this server, and so is what they cost", i.Key)
		}
		return
	}
	if len(i.Methods) == 0 {
		c.problem(s.line, "methods are missing")
	}
	i.Prices = c.prices(s, slices.Collect(maps.Values(newest)))
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

func (c *checker) egress(s egressSpec) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, t := range s.Allow {
		p, err := netip.ParsePrefix(t.value)
		if err != nil {
			c.problem(t.line, "egress %q must be a network such as 10.1.0.0/16", t.value)
			continue
		}
		prefixes = append(prefixes, p.Masked())
	}
	return prefixes
}

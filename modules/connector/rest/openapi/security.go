package openapi

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/toolset"
)

// scheme is a security scheme as a credential of the toolset.
type scheme struct {
	name       string
	credential credential
}

// same reports whether two schemes put the same thing in the same place.
func (s scheme) same(as scheme) bool {
	a, b := s.credential, as.credential
	bearer := func(t string) bool {
		return slices.Contains([]string{string(toolset.Bearer), string(toolset.ClientCredentials), string(toolset.AuthorizationCode)}, t)
	}
	if bearer(a.Type) && bearer(b.Type) {
		return true
	}
	return a.Type == b.Type && (a.Name == b.Name || a.Type == string(toolset.Basic))
}

// secure decides what calls carry: what the options say, or the schemes that
// most of the operations take.
func (c *converter) secure(chosen []operation) error {
	switch {
	case c.options.Bearer && len(c.options.Security) > 0:
		return fmt.Errorf("--bearer and --security say two things: give one of them")
	case c.options.Bearer:
		c.credentials = []scheme{{"", credential{Type: string(toolset.Bearer)}}}
		return nil
	case len(c.options.Security) > 0:
		made, err := c.schemes(c.options.Security)
		c.credentials = made
		c.scopes(chosen)
		return err
	}
	var candidates [][]string
	votes := map[string]int{}
	for _, op := range chosen {
		needed, _ := c.requirements(op)
		for _, names := range needed {
			key := strings.Join(names, "\x00")
			if votes[key] == 0 {
				candidates = append(candidates, names)
			}
			votes[key]++
		}
	}
	if len(candidates) == 0 { // documents forget to say which calls need them
		for _, name := range slices.Sorted(maps.Keys(c.declared().value)) {
			candidates = append(candidates, []string{name})
		}
	}
	var usable [][]scheme
	count := map[string]int{}
	for _, names := range candidates {
		made, err := c.schemes(names)
		if err != nil {
			c.note("%s", err)
			continue
		}
		usable = append(usable, made)
		count[keyOf(made)] = votes[strings.Join(names, "\x00")]
	}
	slices.SortStableFunc(usable, func(a, b []scheme) int { // what needs nobody's consent comes first
		return cmp.Or(count[keyOf(b)]-count[keyOf(a)], order(ofUsers(a))-order(ofUsers(b)))
	})
	if len(usable) == 0 {
		return nil
	}
	c.credentials = usable[0]
	c.scopes(chosen)
	if i := slices.IndexFunc(usable, ofUsers); i > 0 {
		c.note("with --security %s each user has a token of their own", strings.ReplaceAll(keyOf(usable[i]), "\x00", ","))
	}
	return nil
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

// keyOf tells sets of schemes apart.
func keyOf(list []scheme) string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.name
	}
	return strings.Join(names, "\x00")
}

// declared are the security schemes of the document.
func (c *converter) declared() node {
	if c.swagger {
		return c.doc.object("securityDefinitions")
	}
	return c.doc.object("components").object("securitySchemes")
}

// security is what is said about the credentials of an operation, and where.
func (c *converter) security(o operation) (at node, list []any) {
	at = c.doc
	if o.node.has("security") {
		at = o.node
	}
	return at, at.list("security")
}

// requirements are the sets of schemes of which an operation needs one; optional
// says that it needs none.
func (c *converter) requirements(o operation) (sets [][]string, optional bool) {
	at, list := c.security(o)
	for _, v := range list {
		names := slices.Sorted(maps.Keys(at.of(v).value))
		if len(names) == 0 {
			optional = true
			continue
		}
		sets = append(sets, names)
	}
	return sets, optional || len(list) == 0
}

// served refuses an operation that does not take what calls carry.
func (c *converter) served(o operation) error {
	sets, optional := c.requirements(o)
	if optional || c.options.Bearer {
		return nil
	}
	var reason error
	for _, names := range sets {
		made, err := c.schemes(names)
		if err == nil && !slices.ContainsFunc(made, func(s scheme) bool { return !slices.ContainsFunc(c.credentials, s.same) }) {
			return nil
		}
		if reason == nil {
			reason = err
		}
	}
	if reason != nil {
		return reason
	}
	return fmt.Errorf("it needs another credential than the toolset has: import it into another one with --security %s", strings.Join(sets[0], ","))
}

// schemes are security schemes of the document that are used together.
func (c *converter) schemes(names []string) ([]scheme, error) {
	out := make([]scheme, len(names))
	for i, name := range names {
		n, _, err := c.docs.follow(c.declared().object(name))
		if err == nil && n.value == nil {
			err = fmt.Errorf("the document has no security scheme %q, only %q: give --bearer for a token", name, strings.Join(slices.Sorted(maps.Keys(c.declared().value)), ", "))
		}
		if err != nil {
			return nil, err
		}
		made, err := c.present(name, n)
		if err != nil {
			return nil, err
		}
		out[i] = scheme{name, made}
	}
	return out, nil
}

// present is how a scheme is presented.
func (c *converter) present(name string, n node) (credential, error) {
	kind, in := n.text("type"), n.text("in")
	with := strings.ToLower(n.text("scheme"))
	switch {
	case kind == "basic", kind == "http" && with == "basic":
		return credential{Type: string(toolset.Basic)}, nil
	case kind == "http" && with == "bearer":
		return credential{Type: string(toolset.Bearer)}, nil
	case kind == "apiKey" && n.text("name") != "" && slices.Contains([]string{toolset.InHeader, toolset.InQuery, toolset.InCookie}, in):
		return credential{Type: in, Name: n.text("name")}, nil
	case kind == "oauth2":
		return c.oauth(name, n)
	}
	return credential{}, fmt.Errorf("the security scheme %s (%s) is not one that toolsets know: give another one with --security, or --bearer for a token", name, strings.TrimSpace(kind+" "+with+in))
}

// oauth is a scheme of OAuth 2: the server gets tokens itself where a client may
// have them without a person, else each user authorizes it.
func (c *converter) oauth(name string, n node) (credential, error) {
	flows := n.object("flows")
	client, code := flows.object("clientCredentials"), flows.object("authorizationCode")
	if c.swagger {
		flows = node{n.in, map[string]any{n.text("flow"): n.value}}
		client, code = flows.object("application"), flows.object("accessCode")
	}
	out := credential{Type: string(toolset.ClientCredentials), Name: client.text("tokenUrl"), Scopes: strings.Join(slices.Sorted(maps.Keys(client.object("scopes").value)), " ")}
	if out.Name == "" {
		out = credential{Type: string(toolset.AuthorizationCode), Name: code.text("tokenUrl"), Authorize: code.text("authorizationUrl")}
	}
	if out.Name == "" || out.Type == string(toolset.AuthorizationCode) && out.Authorize == "" {
		return credential{}, fmt.Errorf(
			"the security scheme %s has no flow that this server knows (OAuth 2, %s): get a token there, and import the document with --bearer; TOOLSET_…_API_KEY is the token",
			name, strings.Join(slices.Sorted(maps.Keys(flows.value)), ", "),
		)
	}
	if again := code.text("refreshUrl"); again != "" && again != out.Name && out.Authorize != "" {
		c.note("the security scheme %s refreshes tokens at %s; they are refreshed where they are given", name, again)
	}
	for _, address := range []*string{&out.Name, &out.Authorize} {
		if *address == "" {
			continue
		}
		at, err := url.Parse(*address)
		base, wrong := url.Parse(c.domain + "/")
		if err != nil || wrong != nil {
			return credential{}, fmt.Errorf("the address %q of the security scheme %s cannot be read", *address, name)
		}
		*address = base.ResolveReference(at).String()
	}
	return out, nil
}

// scopes has users asked for what the operations need that calls of the toolset
// reach, and for no more.
func (c *converter) scopes(chosen []operation) {
	for i, s := range c.credentials {
		if s.credential.Type != string(toolset.AuthorizationCode) {
			continue
		}
		needed := map[string]bool{}
		for _, op := range chosen {
			if c.served(op) != nil {
				continue
			}
			at, list := c.security(op)
			for _, v := range list {
				for _, scope := range at.of(v).list(s.name) {
					if text, ok := scope.(string); ok && text != "" && !strings.ContainsAny(text, " \r\n") {
						needed[text] = true
					}
				}
			}
		}
		c.credentials[i].credential.Scopes = strings.Join(slices.Sorted(maps.Keys(needed)), " ")
	}
}

// ofUsers reports whether a token of the user who calls is among them.
func ofUsers(list []scheme) bool {
	return slices.ContainsFunc(list, func(s scheme) bool { return s.credential.Type == string(toolset.AuthorizationCode) })
}

// credential is what the toolset's file says of its credential; nil for none.
// The values are variables of the environment: a document holds no secrets.
func (c *converter) credential() *credential {
	if len(c.credentials) == 0 {
		return nil
	}
	variable := "TOOLSET_" + strings.ToUpper(notInName.ReplaceAllString(c.options.Key, "_"))
	var all []credential
	for i, s := range c.credentials {
		prefix := variable
		if i > 0 {
			prefix += "_" + strings.ToUpper(notInName.ReplaceAllString(s.name, "_"))
		}
		one := s.credential
		one.Value = "${" + prefix + "_API_KEY}"
		switch one.Type {
		case string(toolset.Basic):
			one.Username = "${" + prefix + "_USER}"
		case string(toolset.ClientCredentials), string(toolset.AuthorizationCode):
			one.Username, one.Value = "${"+prefix+"_CLIENT_ID}", "${"+prefix+"_CLIENT_SECRET}"
		}
		all = append(all, one)
	}
	all[0].Also = all[1:]
	return &all[0]
}

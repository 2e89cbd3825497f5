package file

import (
	"strings"

	"github.com/portico-run/portico/modules/toolset"
)

// maxAlso bounds how many credentials go together.
const maxAlso = 8

func credentialTypes() []string {
	return []string{
		string(toolset.Automatic), string(toolset.Header), string(toolset.Bearer), string(toolset.Basic), string(toolset.Query), string(toolset.Cookie),
		string(toolset.ClientCredentials), string(toolset.Volcengine),
	}
}

func (c *checker) credential(s *credentialSpec) *toolset.Credential {
	if s == nil {
		return nil
	}
	c.shape(s.form)
	t := toolset.CredentialType(c.oneOf(s.Type, "credential type", string(toolset.Automatic), credentialTypes()...))
	name, username, value := s.Name.value, c.expand(s.Username.line, s.Username.value), c.expand(s.Value.line, s.Value.value)
	switch {
	case s.Value.value == "":
		c.problem(s.line, "the credential has no value")
	case (t == toolset.Header || t == toolset.Query || t == toolset.Cookie) && name == "":
		c.problem(s.line, "a credential of type %s needs a name", t)
	case (t == toolset.Header || t == toolset.Cookie) && !headerName.MatchString(name):
		c.problem(s.line, "the name %q of the credential cannot be sent", name)
	case (t == toolset.Basic || t == toolset.Volcengine || t == toolset.ClientCredentials) && s.Username.value == "":
		c.problem(s.line, "a credential of type %s needs a username", t)
	case t == toolset.Volcengine && strings.Count(name, "/") != 1:
		c.problem(s.line, "a credential of type volcengine needs a name such as cn-north-1/cv, the region and the service")
	case t == toolset.ClientCredentials && !isURL(name):
		c.problem(s.line, "a credential of type clientCredentials needs as its name the URL that gives tokens")
	case t != toolset.ClientCredentials && s.Scopes.value != "":
		c.problem(s.line, "a credential of type %s has no scopes", t)
	case strings.ContainsAny(name+username+value+s.Scopes.value, "\r\n"):
		c.problem(s.line, "the credential holds a line break")
	}
	out := &toolset.Credential{Type: t, Name: name, Username: username, Value: toolset.Secret(value), Scopes: s.Scopes.value}
	if len(s.Also) > maxAlso {
		c.problem(s.line, "at most %d credentials go together", maxAlso+1)
		return out
	}
	for _, more := range s.Also {
		if more == nil || len(more.Also) > 0 {
			c.problem(s.line, "what goes with a credential is one, and has no other with it")
			continue
		}
		if made := c.credential(more); made != nil {
			out.Also = append(out.Also, *made)
		}
	}
	if len(out.Also) > 0 && (t == toolset.Volcengine || t == toolset.Automatic) {
		c.problem(s.line, "nothing goes with a credential of type %s", t)
	}
	return out
}

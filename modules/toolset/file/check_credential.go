package file

import (
	"cmp"
	"strings"

	"github.com/portico-run/portico/modules/toolset"
)

// maxAlso bounds how many credentials go together.
const maxAlso = 8

func credentialTypes() []string {
	return []string{
		string(toolset.Automatic), string(toolset.Header), string(toolset.Bearer), string(toolset.Basic), string(toolset.Query), string(toolset.Cookie),
		string(toolset.ClientCredentials), string(toolset.AuthorizationCode), string(toolset.Volcengine),
	}
}

func isOAuth(t toolset.CredentialType) bool {
	return t == toolset.ClientCredentials || t == toolset.AuthorizationCode
}

// users holds a toolset against what its credential stands for: tokens of users are
// those of the type oauth.
func (c *checker) users(s spec, i item) {
	n, line := 0, cmp.Or(s.Type.line, s.line)
	if i.Credential != nil {
		for _, one := range append([]toolset.Credential{*i.Credential}, i.Credential.Also...) {
			if one.Type != toolset.AuthorizationCode {
				continue
			}
			n++
			if !strings.HasPrefix(i.Domain, "http:") && (strings.HasPrefix(one.Name, "http:") || strings.HasPrefix(one.Authorize, "http:")) {
				c.problem(s.Credential.line, "tokens of users are sent by https only: name and authorize must begin with it")
			}
		}
	}
	switch {
	case i.Type != toolset.TypeOAuth && n > 0:
		c.problem(line, "a toolset with a credential of type authorizationCode has the type oauth")
	case i.Type == toolset.TypeOAuth && n != 1:
		c.problem(line, "a toolset of the type oauth has one credential of type authorizationCode")
	case i.Type == toolset.TypeOAuth && len(i.Patterns) > 0:
		c.problem(s.AuthPatterns.node.Line, "a toolset of the type oauth has no authPatterns: nobody installs it")
	case i.Type == toolset.TypeOAuth && !i.Global:
		c.problem(line, "a toolset of the type oauth is everybody's: each user connects an account of their own")
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
	case s.Value.value == "" && t != toolset.AuthorizationCode: // a client may have no secret
		c.problem(s.line, "the credential has no value")
	case (t == toolset.Header || t == toolset.Query || t == toolset.Cookie) && name == "":
		c.problem(s.line, "a credential of type %s needs a name", t)
	case (t == toolset.Header || t == toolset.Cookie) && !headerName.MatchString(name):
		c.problem(s.line, "the name %q of the credential cannot be sent", name)
	case (t == toolset.Basic || t == toolset.Volcengine || isOAuth(t)) && s.Username.value == "":
		c.problem(s.line, "a credential of type %s needs a username", t)
	case t == toolset.Volcengine && strings.Count(name, "/") != 1:
		c.problem(s.line, "a credential of type volcengine needs a name such as cn-north-1/cv, the region and the service")
	case isOAuth(t) && !isURL(name):
		c.problem(s.line, "a credential of type %s needs as its name the URL that gives tokens", t)
	case t == toolset.AuthorizationCode && !isURL(s.Authorize.value):
		c.problem(s.line, "a credential of type authorizationCode needs with authorize the URL where users agree")
	case t != toolset.AuthorizationCode && s.Authorize.value != "":
		c.problem(s.line, "a credential of type %s has no authorize", t)
	case !isOAuth(t) && s.Scopes.value != "":
		c.problem(s.line, "a credential of type %s has no scopes", t)
	case strings.ContainsAny(name+username+value+s.Scopes.value+s.Authorize.value, "\r\n"):
		c.problem(s.line, "the credential holds a line break")
	}
	out := &toolset.Credential{Type: t, Name: name, Username: username, Value: toolset.Secret(value), Scopes: s.Scopes.value, Authorize: s.Authorize.value}
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

package openapi

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

var errNoServer = errors.New("the document names no server by a whole URL; give one with --domain")

// server is where the API is: the first server that is a whole URL, or one that
// is relative to where the document is.
func (c *converter) server() (string, error) {
	if c.options.Domain != "" {
		return c.absolute(c.options.Domain)
	}
	if c.swagger {
		return c.absolute(c.host())
	}
	list := c.doc.list("servers")
	if len(list) == 0 {
		return c.absolute("/")
	}
	return c.firstServer(c.doc, list)
}

// firstServer is the first server of a list that can be used.
func (c *converter) firstServer(at node, list []any) (string, error) {
	var first error
	for _, v := range list {
		text, err := c.filled(at.of(v))
		if err == nil {
			text, err = c.absolute(text)
		}
		if err == nil {
			return text, nil
		}
		if first == nil {
			first = err
		}
	}
	return "", first
}

// filled is the URL of a server with its variables.
func (c *converter) filled(server node) (string, error) {
	text := server.text("url")
	variables := server.object("variables")
	for _, match := range placeholder.FindAllStringSubmatch(text, -1) {
		name := match[1]
		value, given := c.options.ServerVariables[name]
		v := variables.object(name)
		if !given {
			switch d := v.value["default"].(type) {
			case nil:
				return "", fmt.Errorf("the server %s has no value for {%s}: give one with --server-var %s=VALUE, or the whole address with --domain", server.text("url"), name, name)
			case string:
				value = d
			default:
				value = fmt.Sprint(d)
			}
		}
		if enum := v.list("enum"); given && len(enum) > 0 && !slices.ContainsFunc(enum, func(one any) bool { return fmt.Sprint(one) == value }) {
			return "", fmt.Errorf("--server-var %s: %q must be one of %v", name, value, enum)
		}
		text = strings.ReplaceAll(text, match[0], value)
	}
	return text, nil
}

// absolute is an address as a whole URL without what stands behind its path.
func (c *converter) absolute(text string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		return "", errNoServer
	}
	if !u.IsAbs() && isWeb(c.options.Location) {
		base, err := url.Parse(c.options.Location)
		if err != nil {
			return "", errNoServer
		}
		u = base.ResolveReference(u)
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return "", errNoServer
	}
	u.RawQuery, u.Fragment = "", ""
	return strings.TrimSuffix(u.String(), "/"), nil
}

// host is the address that a Swagger 2 document names.
func (c *converter) host() string {
	host, base := c.doc.text("host"), c.doc.text("basePath")
	if host == "" {
		return base + "/"
	}
	scheme := "https"
	if schemes := c.doc.list("schemes"); len(schemes) > 0 && !slices.Contains(schemes, any("https")) {
		scheme, _ = schemes[0].(string)
	}
	return scheme + "://" + host + "/" + strings.TrimPrefix(base, "/")
}

package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// request is a request that is being made.
type request upstream.Request

const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
)

// newRequest maps a call onto HTTP: parameters named in the endpoint go there,
// the others into the query of a GET and into the body of anything else. See
// docs/wire/refly.md#config-based-requests.
func newRequest(in tool.Invocation, now time.Time) (upstream.Request, *tool.Failure) {
	p := request{Method: in.Method.HTTPMethod, Allow: in.Toolset.Egress, Header: http.Header{"User-Agent": {"portico"}, "Accept": {typeJSON + ", */*;q=0.5"}}}
	// Before any argument is placed: a caller cannot write where the key goes.
	placed := p.setHeaders(in.Method.Adapter.Headers, in.Credential)
	arguments, _ := omit(in.Method.Request, maps.Clone(in.Arguments)).(map[string]any)
	target, failure := expand(in.Toolset, in.Method, arguments)
	if failure != nil {
		return upstream.Request(p), failure
	}
	target = p.place(in.Method.Adapter, target, arguments)
	if name := p.unsendable(); name != "" {
		return upstream.Request(p), &tool.Failure{Code: tool.CodeInvalidArguments, Message: "The argument that goes into the header " + name + " holds a control character, which no header can carry."}
	}
	if (p.Method == http.MethodGet || p.Method == http.MethodHead) && in.Method.Adapter.BodyParameter == "" {
		target = withQuery(target, values(arguments))
	} else if err := p.setBody(in.Method.Adapter, arguments); err != nil {
		return upstream.Request(p), &tool.Failure{Code: tool.CodeInvalidArguments, Message: "The arguments cannot be sent: " + err.Error()}
	}
	p.URL = p.authorize(target, in.Credential, placed)
	if name := p.unsendable(); name != "" {
		return upstream.Request(p), &tool.Failure{Code: upstream.CodeInvalidRequest, Message: "The credential that goes into the header " + name + " holds a line break or another control character, which no header can carry. Nothing was sent; give the credential again."}
	}
	if err := p.sign(in.Credential, now); err != nil {
		return upstream.Request(p), &tool.Failure{Code: "INVALID_URL", Message: "The tool's configuration makes no address."}
	}
	return upstream.Request(p), nil
}

// place puts arguments where the method says, and takes them out of the others.
func (p *request) place(a toolset.Adapter, target string, arguments map[string]any) string {
	for name, header := range a.HeaderParameters {
		if v, ok := arguments[name]; ok && v != nil {
			p.Header.Set(header, oneLine(text(v)))
		}
		delete(arguments, name)
	}
	query := map[string]any{}
	for _, name := range a.QueryParameters {
		if v, ok := arguments[name]; ok {
			query[name] = v
		}
		delete(arguments, name)
	}
	return withPairs(withQuery(target, values(query)), p.placeStyled(a, arguments))
}

// placeStyled is place for the arguments that the method says more about. It
// returns those that go into the query.
func (p *request) placeStyled(a toolset.Adapter, arguments map[string]any) []pair {
	var query, cookies []pair
	for _, name := range slices.Sorted(maps.Keys(a.Parameters)) {
		says := a.Parameters[name]
		v, ok := arguments[name]
		if says.In == toolset.InBody {
			continue
		}
		delete(arguments, name)
		if !ok || v == nil {
			continue
		}
		switch says.In {
		case toolset.InQuery:
			query = append(query, inQuery(says, name, v)...)
		case toolset.InHeader:
			p.Header.Set(nameIn(says, name), inHeader(says, v))
		case toolset.InCookie:
			cookies = append(cookies, inQuery(says, name, v)...)
		}
	}
	p.addCookies(cookies)
	return query
}

// unsendable is the name of a header that HTTP cannot carry; empty for none.
func (p *request) unsendable() string {
	for _, name := range slices.Sorted(maps.Keys(p.Header)) {
		if slices.ContainsFunc(p.Header[name], func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return name
		}
	}
	return ""
}

func (p *request) addCookies(pairs []pair) {
	if len(pairs) == 0 {
		return
	}
	if had := p.Header.Get("Cookie"); had != "" {
		p.Header.Set("Cookie", had+"; "+joined(pairs, "; "))
		return
	}
	p.Header.Set("Cookie", joined(pairs, "; "))
}

// withPairs adds fields that are escaped to the query of a URL.
func withPairs(target string, more []pair) string {
	switch {
	case len(more) == 0:
		return target
	case strings.Contains(target, "?"):
		return target + "&" + joined(more, "&")
	}
	return target + "?" + joined(more, "&")
}

var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

// expand fills the endpoint's placeholders and takes what they used out of
// the arguments. No value can change the route: what separates parts of a URL
// is escaped, and what means another folder is refused.
func expand(t toolset.Toolset, m toolset.Method, arguments map[string]any) (string, *tool.Failure) {
	endpoint := m.Endpoint
	if strings.HasPrefix(endpoint, "/") {
		endpoint = strings.TrimSuffix(t.Domain, "/") + endpoint
	}
	path, query, hasQuery := strings.Cut(endpoint, "?")
	var (
		problem *tool.Failure
		used    []string
	)
	fill := func(template string, escape func(string) string, inPath bool) string {
		return placeholder.ReplaceAllStringFunc(template, func(place string) string {
			name := place[1 : len(place)-1]
			used = append(used, name)
			if says, styled := m.Adapter.Parameters[name]; styled && inPath && arguments[name] != nil {
				written, failure := intoPath(says, name, arguments[name])
				if failure != nil {
					problem = failure
				}
				return written
			}
			text, ok := scalar(arguments[name])
			switch {
			case !ok:
				problem = invalid(name, "is required, as text or a number")
			case inPath && (text == "" || text == "." || text == ".."):
				problem = invalid(name, "must not be empty or dots: it is part of the tool's address")
			}
			return escape(text)
		})
	}
	target := fill(path, url.PathEscape, true)
	if hasQuery {
		target += "?" + fill(query, url.QueryEscape, false)
	}
	for _, name := range used {
		delete(arguments, name)
	}
	return target, problem
}

func invalid(name, rule string) *tool.Failure {
	return &tool.Failure{Code: tool.CodeInvalidArguments, Message: fmt.Sprintf("Invalid arguments: %s: %s", name, rule)}
}

// scalar writes a single value as text.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	}
	return "", false
}

// text writes any value as text: what is not single, as JSON.
func text(v any) string {
	if s, ok := scalar(v); ok {
		return s
	}
	return asJSON(v)
}

// values writes arguments as query or form fields: lists repeat the name,
// null is left out.
func values(arguments map[string]any) url.Values {
	out := url.Values{}
	for name, v := range arguments {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, item := range list {
			if item != nil {
				out.Add(name, text(item))
			}
		}
	}
	return out
}

func withQuery(target string, more url.Values) string {
	if len(more) == 0 {
		return target
	}
	separator := "?"
	if strings.Contains(target, "?") {
		separator = "&"
	}
	return target + separator + more.Encode()
}

// apiKeyPlace is where a header takes the credential.
const apiKeyPlace = "${apiKey}"

// setHeaders writes the headers that the method names, with the credential where
// they ask for it. It reports whether one does.
func (p *request) setHeaders(headers map[string]string, c toolset.Credential) (placed bool) {
	for name, value := range headers {
		placed = placed || strings.Contains(value, apiKeyPlace)
		p.Header.Set(name, strings.ReplaceAll(value, apiKeyPlace, c.Value.Reveal()))
	}
	return placed
}

// authorize puts the credential where it belongs and returns the address,
// which carries it if it is a query parameter. placed says that a header has it.
func (p *request) authorize(target string, c toolset.Credential, placed bool) string {
	switch c.Type {
	case toolset.Header:
		p.Header.Set(c.Name, c.Value.Reveal())
	case toolset.Bearer:
		p.Header.Set("Authorization", "Bearer "+c.Value.Reveal())
	case toolset.Basic:
		r := http.Request{Header: p.Header}
		r.SetBasicAuth(c.Username, c.Value.Reveal())
	case toolset.Query:
		target = withQuery(target, url.Values{c.Name: {c.Value.Reveal()}})
	case toolset.Cookie:
		p.addCookies([]pair{{c.Name, escapeAll(c.Value.Reveal())}})
	case toolset.Automatic:
		if !placed {
			p.Header.Set(p.keyHeader(c))
		}
	}
	for _, more := range c.Also {
		target = p.authorize(target, more, false)
	}
	return target
}

// keyHeader is the header an API key goes into when no header asks for it:
// the one named after it, or a bearer token. See
// docs/wire/refly.md#presenting-a-credential.
func (p *request) keyHeader(c toolset.Credential) (name, value string) {
	for _, name := range slices.Sorted(maps.Keys(p.Header)) {
		if strings.Contains(strings.ToLower(name), "api-key") {
			return name, c.Value.Reveal()
		}
	}
	if p.Header.Get("Authorization") != "" {
		return "Authorization", p.Header.Get("Authorization")
	}
	return "Authorization", "Bearer " + c.Value.Reveal()
}

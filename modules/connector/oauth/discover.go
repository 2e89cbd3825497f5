package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// Limits of requests to authorization servers.
const (
	timeout = 10 * time.Second
	maxBody = 1 << 20
)

// place is where requests go: within which networks, and whether http will do.
type place struct {
	allow []netip.Prefix
	plain bool
}

// placeOf is the place of what belongs to a target. http will do only where its own
// address has it, which users cannot choose.
func placeOf(s Target) place {
	return place{allow: s.Egress, plain: strings.HasPrefix(s.URL, "http:")}
}

// check refuses an address that a metadata document names.
func (p place) check(what, address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return fmt.Errorf("%s %q is no address", what, address)
	case u.Scheme != "https" && (u.Scheme != "http" || !p.plain):
		return fmt.Errorf("%s %q is not an https address", what, address)
	}
	return nil
}

// errStatus is an answer that is none.
type errStatus struct{ status int }

func (e errStatus) Error() string { return fmt.Sprintf("the answer has the status %d", e.status) }

// do sends a request and reads the answer, whatever its status.
func (s *Service) do(ctx context.Context, p place, r *http.Request) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := s.client.Do(r.WithContext(ctx), p.allow)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("the answer is larger than %d bytes", maxBody)
	}
	return resp.StatusCode, body, err
}

// get reads a JSON document.
func (s *Service) get(ctx context.Context, p place, address string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	status, body, err := s.do(ctx, p, r)
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		return errStatus{status}
	}
	return json.Unmarshal(body, into)
}

// resource is what an MCP server says about authorization.
type resource struct {
	// ID names it in requests for tokens.
	ID     string
	Issuer string
	// Scopes are what it wants; empty where it does not say.
	Scopes []string
}

// challenge is what an answer with the status 401 or 403 says.
type challenge struct {
	metadata, problem string
	scopes            []string
}

func challengeOf(h http.Header) challenge {
	var c challenge
	list, err := oauthex.ParseWWWAuthenticate(h.Values("WWW-Authenticate"))
	if err != nil {
		return c // it is as if there were none: the well-known places remain
	}
	for _, one := range list {
		if one.Scheme == "bearer" {
			c.metadata, c.problem, c.scopes = one.Params["resource_metadata"], one.Params["error"], strings.Fields(one.Params["scope"])
			return c
		}
	}
	return c
}

// probe asks a server without a token, for the challenge.
func (s *Service) probe(ctx context.Context, of Target) (challenge, error) {
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"portico","version":"1"}}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, of.URL, strings.NewReader(hello))
	if err != nil {
		return challenge{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range of.Headers {
		r.Header.Set(name, value)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := s.client.Do(r.WithContext(ctx), of.Egress)
	if err != nil {
		return challenge{}, err
	}
	_ = resp.Body.Close() // only its head was asked for
	return challengeOf(resp.Header), nil
}

// resource finds what a server says about authorization: where its challenge
// points, then at the well-known places. A server that says nothing is its own
// authorization server, as the first revisions of the protocol had it.
func (s *Service) resource(ctx context.Context, of Target, c challenge) (resource, error) {
	p := placeOf(of)
	for _, address := range resourcePlaces(of.URL, c.metadata) {
		var m oauthex.ProtectedResourceMetadata
		if err := p.check("resource_metadata", address); err != nil {
			return resource{}, err
		}
		err := s.get(ctx, p, address, &m)
		if status, ok := errors.AsType[errStatus](err); ok && status.status < 500 {
			continue
		}
		if err != nil {
			return resource{}, fmt.Errorf("%s: %w", address, err)
		}
		if !covers(m.Resource, of.URL) {
			return resource{}, fmt.Errorf("%s is about the resource %q, which is not %s", address, m.Resource, of.URL)
		}
		if len(m.AuthorizationServers) == 0 {
			return resource{}, fmt.Errorf("%s names no authorization server", address)
		}
		out := resource{ID: m.Resource, Issuer: m.AuthorizationServers[0], Scopes: c.scopes}
		if len(out.Scopes) == 0 {
			out.Scopes = m.ScopesSupported
		}
		return out, p.check("authorization server", out.Issuer)
	}
	u, err := url.Parse(of.URL)
	if err != nil {
		return resource{}, err
	}
	return resource{ID: of.URL, Issuer: u.Scheme + "://" + u.Host, Scopes: c.scopes}, nil
}

// resourcePlaces are where the metadata of a resource may be, the best first.
func resourcePlaces(address, named string) []string {
	const wellKnown = "/.well-known/oauth-protected-resource"
	var places []string
	if named != "" {
		places = append(places, named)
	}
	u, err := url.Parse(address)
	if err != nil {
		return places
	}
	root := u.Scheme + "://" + u.Host + wellKnown
	if path := strings.TrimRight(u.EscapedPath(), "/"); path != "" {
		places = append(places, root+path)
	}
	return append(places, root)
}

// covers reports whether a resource is an address, or has it below.
func covers(resource, address string) bool {
	r, err := url.Parse(resource)
	a, failure := url.Parse(address)
	if err != nil || failure != nil || !strings.EqualFold(r.Scheme, a.Scheme) || !strings.EqualFold(r.Host, a.Host) || r.Host == "" {
		return false
	}
	base, path := strings.TrimRight(r.Path, "/"), strings.TrimRight(a.Path, "/")
	return path == base || strings.HasPrefix(path, base+"/")
}

// authority is what an authorization server says about itself.
type authority struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	Methods               []string `json:"token_endpoint_auth_methods_supported"`
	Challenges            []string `json:"code_challenge_methods_supported"`
	Scopes                []string `json:"scopes_supported"`
	Documents             bool     `json:"client_id_metadata_document_supported"`
	NamesItself           bool     `json:"authorization_response_iss_parameter_supported"`
}

// authority reads the metadata of an issuer.
func (s *Service) authority(ctx context.Context, p place, issuer string) (authority, error) {
	for _, address := range authorityPlaces(issuer) {
		var m authority
		err := s.get(ctx, p, address, &m)
		if status, ok := errors.AsType[errStatus](err); ok && status.status < 500 {
			continue
		}
		if err != nil {
			return authority{}, fmt.Errorf("%s: %w", address, err)
		}
		if strings.TrimSuffix(m.Issuer, "/") != strings.TrimSuffix(issuer, "/") {
			return authority{}, fmt.Errorf("%s is about the issuer %q, not %q", address, m.Issuer, issuer)
		}
		return m, m.check(p)
	}
	return authority{}, fmt.Errorf("the authorization server %s has no metadata", issuer)
}

func (m authority) check(p place) error {
	if !slices.Contains(m.Challenges, "S256") {
		return fmt.Errorf("the authorization server %s does not support PKCE with S256", m.Issuer)
	}
	err := errors.Join(p.check("authorization_endpoint", m.AuthorizationEndpoint), p.check("token_endpoint", m.TokenEndpoint))
	if m.RegistrationEndpoint != "" {
		err = errors.Join(err, p.check("registration_endpoint", m.RegistrationEndpoint))
	}
	if m.RevocationEndpoint != "" {
		err = errors.Join(err, p.check("revocation_endpoint", m.RevocationEndpoint))
	}
	return err
}

// authorityPlaces are where the metadata of an issuer may be, the best first.
func authorityPlaces(issuer string) []string {
	const oauth, oidc = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	root, path := u.Scheme+"://"+u.Host, strings.TrimRight(u.EscapedPath(), "/")
	if path == "" {
		return []string{root + oauth, root + oidc}
	}
	return []string{root + oauth + path, root + oidc + path, root + path + oidc}
}

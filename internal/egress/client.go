// Package egress makes HTTP requests to addresses that operators and tenants
// chose, without letting them reach what only this machine can: addresses are
// checked when a connection is made, after the name was resolved, and again
// after every redirect.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"code.dny.dev/ssrf"
)

// Limits that no caller sets.
const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	idlePerHost      = 32
	maxHeaderBytes   = 1 << 20
	maxRedirects     = 5
	// maxPolicies bounds how many connection pools are kept.
	maxPolicies = 256
)

// Config is what a client needs. The zero value is right for production.
type Config struct {
	// Resolver looks names up; nil for the system's.
	Resolver *net.Resolver
}

// Client makes requests. It is safe for concurrent use.
type Client struct {
	config Config

	mu      sync.Mutex
	clients map[string]*http.Client // by what they may reach
}

// New returns a client.
func New(c Config) *Client { return &Client{config: c, clients: map[string]*http.Client{}} }

// Do makes a request. It reaches the public internet and the networks in
// allow; anything else is ErrRefused. Redirects are followed within the same
// rules, without credentials when they leave the origin. The request's context
// bounds everything, reading the body included.
func (c *Client) Do(r *http.Request, allow []netip.Prefix) (*http.Response, error) {
	if err := checkURL(r.URL); err != nil {
		return nil, err
	}
	return watched(c.client(allow), r)
}

// Close ends idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.clients {
		client.CloseIdleConnections()
	}
	clear(c.clients)
}

func (c *Client) client(allow []netip.Prefix) *http.Client {
	key := fmt.Sprint(allow)
	c.mu.Lock()
	defer c.mu.Unlock()
	if client, ok := c.clients[key]; ok {
		return client
	}
	if len(c.clients) >= maxPolicies {
		for old, client := range c.clients {
			client.CloseIdleConnections()
			delete(c.clients, old)
			break // any one: which is of no matter for correctness
		}
	}
	client := c.open(allow)
	c.clients[key] = client
	return client
}

func (c *Client) open(allow []netip.Prefix) *http.Client {
	var v4, v6 []netip.Prefix
	for _, p := range allow {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	guard := ssrf.New(ssrf.WithAnyPort(), ssrf.WithNetworks("tcp4", "tcp6"), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	// No proxy of the environment: it would make the check meaningless.
	return &http.Client{
		Transport:     transport(&net.Dialer{Timeout: dialTimeout, Control: guard.Safe, Resolver: c.config.Resolver}),
		CheckRedirect: checkRedirect,
	}
}

func checkURL(u *url.URL) error {
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("%w: only http and https URLs", ErrRefused)
	}
	return nil
}

// checkRedirect follows a redirect like a browser that trusts nobody: what a
// request carried for one origin does not go to another.
func checkRedirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: %w", ErrRefused, ErrRedirects)
	}
	if err := checkURL(next.URL); err != nil {
		return err
	}
	next.Header.Del("Referer") // the URL before may hold a credential
	if origin(next.URL) == origin(via[0].URL) {
		return nil
	}
	if next.Body != nil && next.Body != http.NoBody || next.GetBody != nil && next.ContentLength != 0 {
		return fmt.Errorf("%w: %w", ErrRefused, ErrBodyElsewhere)
	}
	for name := range next.Header {
		switch name {
		case "Accept", "Accept-Language", "User-Agent":
		default:
			next.Header.Del(name)
		}
	}
	return nil
}

func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// ErrRefused says that the rules forbid a request.
var ErrRefused = errors.New("not allowed")

// Why a redirect is refused that leads where the rules allow. Both are ErrRefused.
var (
	ErrRedirects     = fmt.Errorf("more than %d redirects", maxRedirects)
	ErrBodyElsewhere = errors.New("a redirect would send the request's body to another origin")
)

// ErrInvalid says that HTTP cannot carry a request: no connection was asked for.
var ErrInvalid = errors.New("no valid request")

// Kind is what went wrong with a request that got no answer.
type Kind string

// The kinds of failure.
const (
	Refused  Kind = "refused"  // by the rules of this package
	Invalid  Kind = "invalid"  // what HTTP cannot carry
	Unknown  Kind = "unknown"  // the name does not resolve
	Dial     Kind = "dial"     // no connection
	TLS      Kind = "tls"      // no secure connection
	Timeout  Kind = "timeout"  // the context's deadline
	Canceled Kind = "canceled" // the context's end
	Broken   Kind = "broken"   // the connection ended in the middle
)

// KindOf classifies an error of Do, or of reading the body of its answer.
func KindOf(err error) Kind {
	var (
		dns *net.DNSError
		op  *net.OpError
	)
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedNetwork):
		return Refused
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.As(err, &dns):
		return Unknown
	case errors.As(err, &op) && op.Op == "dial":
		return Dial
	case isTLS(err):
		return TLS
	case errors.Is(err, ErrInvalid):
		return Invalid
	case !Sent(err):
		return Dial
	}
	return Broken
}

// Sent reports whether something of a failed request may have been sent, to its
// address or to one that it was redirected from.
func Sent(err error) bool {
	_, ok := errors.AsType[unsent](err)
	return !ok && !errors.Is(err, ErrInvalid)
}

// BeforeWritten reports whether a failed request can have had no effect and may
// succeed later: nothing of it was sent, because there was no connection.
func BeforeWritten(err error) bool {
	switch KindOf(err) {
	case Unknown, Dial:
		return !Sent(err)
	}
	return false
}

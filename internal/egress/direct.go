package egress

import (
	"net"
	"net/http"
	"net/netip"
)

// Direct makes requests to what the operator chose, such as a model provider:
// the address may be a local one, or behind the proxy of the
// environment. A redirect is an answer like another: to follow it would take the
// key and the body where nobody sent them.
type Direct struct{ http *http.Client }

// NewDirect returns a client. It does not connect.
func NewDirect() Direct {
	t := transport(&net.Dialer{Timeout: dialTimeout})
	t.Proxy = http.ProxyFromEnvironment
	return Direct{&http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Do makes a request; the networks do not matter. The request's context bounds
// everything, reading the body included.
func (d Direct) Do(r *http.Request, _ []netip.Prefix) (*http.Response, error) {
	return watched(d.http, r)
}

// transport is the bounds of every connection.
func transport(d *net.Dialer) *http.Transport {
	return &http.Transport{
		DialContext:            d.DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

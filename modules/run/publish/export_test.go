package publish

import (
	"context"
	"crypto/x509"
	"strings"
)

// Address tells how the address of a Redis is read.
func Address(text string) (string, error) {
	a, err := parseAddress(text)
	words := []string{a.hostPort}
	for _, command := range a.greeting() {
		words = append(words, command...)
	}
	if a.tls != nil {
		words = append(words, "TLS")
	}
	return strings.Join(words, " "), err
}

// Client is what asks Redis.
type Client struct{ client }

// NewClient makes one.
func NewClient(url string) (*Client, error) {
	a, err := parseAddress(url)
	return &Client{client{at: a}}, err
}

// Eval runs a script.
func (c *Client) Eval(ctx context.Context, script string, keys, args []string) (int64, error) {
	return c.eval(ctx, script, keys, args)
}

// Trust makes it take certificates of an authority.
func (c *Client) Trust(roots *x509.CertPool) { c.at.tls.RootCAs = roots }

// GiveUp closes the connection as a question does whose time ends while the answer
// comes.
func (c *Client) GiveUp() error { return c.conn.Close() }

// Close ends its connection.
func (c *Client) Close() error { return c.close() }

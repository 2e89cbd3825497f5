package remote

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/portico-run/portico/modules/sandbox"
)

// ClientConfig is what a client of nodes needs.
type ClientConfig struct {
	// Keys sign for this process; a node trusts one of them at least.
	Keys []ed25519.PrivateKey
	// TLS is nil for connections that are not encrypted.
	TLS *tls.Config
	Now func() time.Time
	// Times are how long nodes are waited for; zero takes what is usual.
	Times Times
}

// Times are how long nodes are waited for.
type Times struct {
	// Accept is how long a node may take until it takes a job, or answers a question.
	Accept time.Duration
	// Quiet is how long nothing may come of a node until it is asked whether it lives,
	// and Silence how long it may take to say so.
	Quiet, Silence time.Duration
	// Idle is how long a node may do nothing of what it was given before the program
	// begins, and after it ended.
	Idle time.Duration
	// Late is how long after its limit a program may still be running.
	Late time.Duration
	// Busy is how long a job waits for a node that has room.
	Busy time.Duration
}

func (t Times) withDefaults() Times {
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&t.Accept, 5 * time.Second}, {&t.Quiet, 2 * time.Second}, {&t.Silence, 6 * time.Second}, {&t.Idle, 30 * time.Second}, {&t.Late, 30 * time.Second}, {&t.Busy, 10 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
	return t
}

// Client speaks with nodes. It is safe for concurrent use.
type Client struct {
	config ClientConfig
	http   *http.Client

	mu        sync.Mutex
	languages []sandbox.Language       // what the last node said that was asked
	ahead     map[string]time.Duration // how far the clock of a node is ahead of ours, by nonce
}

// NewClient returns a client that is connected to nobody.
func NewClient(c ClientConfig) *Client {
	c.Times = c.Times.withDefaults()
	if c.Now == nil {
		c.Now = time.Now
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(c.TLS == nil)
	protocols.SetHTTP2(c.TLS != nil)
	return &Client{config: c, ahead: map[string]time.Duration{}, http: &http.Client{
		Transport: &http.Transport{
			Protocols: &protocols, TLSClientConfig: c.TLS.Clone(), TLSHandshakeTimeout: c.Times.Accept, DisableCompression: true, IdleConnTimeout: clientIdle,
			HTTP2: &http.HTTP2Config{SendPingTimeout: c.Times.Quiet, PingTimeout: c.Times.Silence, MaxReceiveBufferPerStream: window, MaxReadFrameSize: frame},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

const (
	clientIdle = 30 * time.Second
	// window is how much of a stream is under way, and frame how much of it in one piece:
	// both are memory that each job takes.
	window = 256 << 10
	frame  = 16 << 10
	// maxStatus is the largest answer to a question, in bytes.
	maxStatus = 64 << 10
	// maxAhead is of how many nodes it is known what their clocks show.
	maxAhead = 10_000
)

func (c *Client) url(address, path string) string {
	scheme := "http"
	if c.config.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + address + path
}

// Status asks a node about itself.
func (c *Client) Status(ctx context.Context, address string) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Times.Accept)
	defer cancel()
	var s Status
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(address, "/v1/status"), nil)
	if err != nil {
		return s, err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return s, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return s, fmt.Errorf("%s is no sandbox node: it answers %s", address, answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxStatus)).Decode(&s); err != nil {
		return s, fmt.Errorf("%s is no sandbox node: %w", address, err)
	}
	if s.Nonce == "" || len(s.Nonce) > maxNonce {
		return s, errors.New(address + " is no sandbox node: it has no name")
	}
	c.learn(s)
	return s, nil
}

// maxNonce is the longest name of a node, in bytes.
const maxNonce = 128

func (c *Client) learn(s Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.languages = s.Languages
	if len(c.ahead) >= maxAhead {
		clear(c.ahead)
	}
	c.ahead[s.Nonce] = s.Now.Sub(c.config.Now())
}

// Close lets go of connections that rest.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Package vendors is the kind of toolsets whose client is code of this server:
// Perplexity, Jina, Notion and Apify-13F.
package vendors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/vendors/definitions"
	"github.com/portico-run/portico/modules/tool"
)

// Client is one vendor.
type Client interface {
	// Call makes one call. What the vendor did wrong is a *tool.Failure.
	Call(ctx context.Context, c Call) (Result, error)
}

// Call is one call of a vendor's tool. Its arguments satisfy the tool's schema.
type Call struct {
	Tool      string
	Arguments json.RawMessage
	Report    func(ctx context.Context, text string)

	api api
}

// Result is what came of a call.
type Result struct {
	Data any
	Cost money.Amount // credits
}

// Deps is what the connector needs.
type Deps struct {
	Upstream *upstream.Caller
	// Timeout bounds one request to a vendor.
	Timeout time.Duration
	// Dollars is what a vendor's bill comes to.
	Dollars func(usd *big.Rat) (money.Amount, error)
	// ContentTokens is the most of a web page that is returned.
	ContentTokens int
}

// Connector implements toolset.Source and tool.Executor for all vendors.
type Connector struct {
	deps        Deps
	definitions map[string]definitions.Toolset // by key
	clients     map[string]Client
}

// New returns a connector. An error is a definition in this package that cannot
// be read.
func New(d Deps) (*Connector, error) {
	all, err := definitions.Load()
	return &Connector{deps: d, definitions: all, clients: map[string]Client{
		"perplexity": perplexity{d.Dollars}, "jina": jina{newCutter(d.ContentTokens)}, "notion": notion{}, "apify-13f": apify{d.Dollars},
	}}, err
}

// Execute implements tool.Executor.
func (c *Connector) Execute(ctx context.Context, in tool.Invocation) (tool.Outcome, error) {
	client, ok := c.clients[in.Toolset.Key]
	if !ok {
		return failed(&tool.Failure{Code: "NOT_IMPLEMENTED", Message: "Legacy SDK toolset not found or not implemented: " + in.Toolset.Key}), nil
	}
	token := in.Credential.Value.Reveal()
	if token == "" {
		return failed(&tool.Failure{Code: tool.CodeNotAuthorized, Message: fmt.Sprintf("Toolset %s has no credential. Install it with one.", in.Toolset.Key)}), nil
	}
	arguments, err := json.Marshal(in.Arguments)
	if err != nil {
		return tool.Outcome{}, err
	}
	got, err := client.Call(ctx, Call{
		Tool: in.Method.Name, Arguments: arguments, Report: in.Report,
		api: api{c.deps.Upstream, c.deps.Timeout, token, upstream.Hide(token), in.Toolset.Domain, in.Toolset.Config, in.Toolset.Egress},
	})
	if f, ok := errors.AsType[*tool.Failure](err); ok {
		return failed(f), nil
	}
	if err != nil {
		return tool.Outcome{}, err
	}
	data, err := json.Marshal(got.Data)
	return tool.Outcome{Data: data, Cost: &got.Cost}, err
}

func failed(f *tool.Failure) tool.Outcome { return tool.Outcome{Failure: f} }

// refuse is a failure for arguments that a schema cannot exclude.
func refuse(format string, args ...any) error {
	return &tool.Failure{Code: tool.CodeInvalidArguments, Message: "Invalid arguments: " + fmt.Sprintf(format, args...)}
}

// unknown is a failure for a tool that the client does not have.
func unknown(c Call) error {
	return &tool.Failure{Code: tool.CodeMethodNotFound, Message: fmt.Sprintf("Tool '%s' is not implemented.", c.Tool)}
}

// api is a vendor's API as one call uses it.
type api struct {
	upstream *upstream.Caller
	timeout  time.Duration
	token    string
	secrets  upstream.Secrets
	domain   string
	config   map[string]string
	egress   []netip.Prefix
}

// base is the address of the API: what the toolset is configured with, or the
// vendor's.
func (a api) base(setting string) string {
	if address := a.config[setting]; address != "" {
		return strings.TrimSuffix(address, "/")
	}
	return strings.TrimSuffix(a.domain, "/")
}

// ask is one request.
type ask struct {
	method, url string
	header      http.Header
	body        any // JSON; nil for none
	raw         []byte
	// harmless says that repeating it has no effect of its own.
	harmless bool
}

// do makes one request and decodes its answer into out, unless that is nil.
func (a api) do(ctx context.Context, q ask, out any) (upstream.Response, error) {
	r := upstream.Request{
		Method: q.method, URL: q.url, Header: http.Header{}, Body: q.raw, Allow: a.egress, Limit: a.timeout,
		Harmless: q.harmless || q.method == http.MethodGet, Retries: upstream.DefaultRetries,
	}
	for name, value := range map[string]string{"Accept": "application/json", "User-Agent": "portico", "Authorization": "Bearer " + a.token} {
		r.Header.Set(name, value)
	}
	if q.body != nil {
		var err error
		if r.Body, err = json.Marshal(q.body); err != nil {
			return upstream.Response{}, err
		}
		r.Header.Set("Content-Type", "application/json")
	}
	for name := range q.header {
		r.Header.Set(name, q.header.Get(name))
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	got, err := a.upstream.Do(ctx, r)
	if f, ok := errors.AsType[*tool.Failure](err); ok {
		return got, a.secrets.Scrub(f)
	}
	if err != nil {
		return got, err
	}
	if !got.OK() {
		return got, got.Refusal(a.secrets)
	}
	got.Body = a.secrets.Redact(got.Body)
	if out == nil {
		return got, nil
	}
	if json.Unmarshal(got.Body, out) != nil {
		return got, &tool.Failure{Code: upstream.CodeInvalid, Message: "The vendor answered with something that is not the JSON it promises. Upstream response: " + upstream.Quote(got.Body)}
	}
	return got, nil
}

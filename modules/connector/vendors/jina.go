package vendors

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/tool"
)

// jina is Jina's reader and search.
type jina struct{ cut *cutter }

// searchHost is where Jina's search is; the reader has a host of its own.
const searchHost = "https://s.jina.ai"

// Call implements Client.
func (j jina) Call(ctx context.Context, c Call) (Result, error) {
	switch c.Tool {
	case "read":
		return j.read(ctx, c)
	case "serp":
		return j.search(ctx, c)
	}
	return Result{}, unknown(c)
}

// creditsPerMillion is what a million of Jina's tokens cost: docs/wire/providers.md#jina.
const creditsPerMillion = 7

// tokensCost is the price of so many tokens in whole credits, at least one.
func tokensCost(tokens float64) money.Amount {
	const million, most = 1_000_000, 1e12 // no page has more
	n := int64(min(max(tokens, 0), most))
	return money.Amount(max((n*creditsPerMillion+million-1)/million, 1)) * money.Credit
}

// envelope is what Jina wraps its answers in.
type envelope struct {
	Code    int             `json:"code"`
	Data    json.RawMessage `json:"data"`
	Message string          `json:"message"`
	Read    string          `json:"readableMessage"`
}

// fetch makes one request. An error may come as a success whose code is none.
func (j jina) fetch(ctx context.Context, c Call, q ask) (json.RawMessage, error) {
	var e envelope
	if _, err := c.api.do(ctx, q, &e); err != nil {
		return nil, err
	}
	if e.Code >= http.StatusBadRequest || len(e.Data) == 0 || string(e.Data) == "null" {
		text := e.Read
		if text == "" {
			text = e.Message
		}
		return nil, &tool.Failure{Code: upstream.CodeOf(e.Code), Message: upstream.Limit("Jina: "+text, upstream.MaxReason)}
	}
	return e.Data, nil
}

func (j jina) read(ctx context.Context, c Call) (Result, error) {
	var in struct {
		URL    string `json:"url"`
		Format string `json:"returnFormat"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return Result{}, refuse("%v", err)
	}
	if !strings.HasPrefix(in.URL, "http://") && !strings.HasPrefix(in.URL, "https://") {
		return Result{}, refuse("url: must be an http or https address")
	}
	// A fragment would never leave this server, and belongs to the page.
	target := strings.ReplaceAll(in.URL, "#", "%23")
	raw, err := j.fetch(ctx, c, ask{method: http.MethodGet, url: c.api.base("readerUrl") + "/" + target, header: http.Header{"X-Return-Format": {in.Format}}})
	if err != nil {
		return Result{}, err
	}
	var page map[string]any
	if json.Unmarshal(raw, &page) != nil {
		return Result{}, &tool.Failure{Code: upstream.CodeInvalid, Message: "Jina answered with something that is no page."}
	}
	cost := tokensCost(tokensOf(page))
	if content, ok := page["content"].(string); ok {
		if page["content"], err = j.cut.to(content, j.cut.limit); err != nil {
			return Result{}, err
		}
	}
	return Result{Data: page, Cost: cost}, nil
}

// tokensOf is how many tokens Jina says a page took.
func tokensOf(page map[string]any) float64 {
	usage, _ := page["usage"].(map[string]any)
	n, _ := usage["tokens"].(float64)
	return n
}

// leastTokens is what is left of each result at least, however many there are.
const leastTokens = 500

func (j jina) search(ctx context.Context, c Call) (Result, error) {
	var in struct {
		Query  string `json:"query"`
		Full   bool   `json:"readFullContent"`
		Site   string `json:"site"`
		Offset int    `json:"offset"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return Result{}, refuse("%v", err)
	}
	header := http.Header{"X-Respond-With": {"no-content"}}
	if in.Full {
		header = http.Header{"X-Engine": {"direct"}}
	}
	if in.Site != "" {
		header.Set("X-Site", in.Site)
	}
	base := searchHost
	if c.api.config["searchUrl"] != "" {
		base = c.api.base("searchUrl")
	}
	raw, err := j.fetch(ctx, c, ask{method: http.MethodPost, url: base + "/", body: map[string]any{"q": in.Query, "page": in.Offset}, header: header, harmless: true})
	if err != nil {
		return Result{}, err
	}
	var pages []map[string]any
	if json.Unmarshal(raw, &pages) != nil {
		return Result{}, &tool.Failure{Code: upstream.CodeInvalid, Message: "Jina answered with something that is no list of results."}
	}
	var tokens float64
	total := 0
	for _, p := range pages {
		tokens += tokensOf(p)
		content, _ := p["content"].(string)
		total += len(content)
	}
	for _, p := range pages {
		content, _ := p["content"].(string)
		if content == "" {
			continue
		}
		share := max(leastTokens, j.cut.limit*len(content)/total)
		if p["content"], err = j.cut.to(content, share); err != nil {
			return Result{}, err
		}
	}
	return Result{Data: pages, Cost: tokensCost(tokens)}, nil
}

// cutter shortens texts to a number of tokens.
type cutter struct {
	limit   int
	encoder func() *codec.Codec // of o200k_base
}

func newCutter(limit int) *cutter {
	return &cutter{limit, sync.OnceValue(codec.NewO200kBase)}
}

// to is the beginning of a text, of so many tokens.
func (c *cutter) to(text string, most int) (string, error) {
	if len(text) <= most {
		return text, nil // a token is a byte at least
	}
	encoder := c.encoder()
	tokens, _, err := encoder.Encode(text)
	if err != nil || len(tokens) <= most {
		return text, err
	}
	short, err := encoder.Decode(tokens[:most])
	return strings.ToValidUTF8(short, "") + "\n...[truncated]", err
}

package vendors

import (
	"context"
	"encoding/json"
	"math/big"
	"net/http"
	"slices"

	"github.com/portico-run/portico/internal/money"
)

// perplexity is Perplexity's API.
type perplexity struct {
	dollars func(usd *big.Rat) (money.Amount, error)
}

// Call implements Client.
func (p perplexity) Call(ctx context.Context, c Call) (Result, error) {
	switch c.Tool {
	case "chat_completions":
		return p.chat(ctx, c)
	case "search":
		return p.search(ctx, c)
	}
	return Result{}, unknown(c)
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// chatRequest is checked beyond its schema, and sent as it came.
type chatRequest struct {
	Messages         []message                  `json:"messages"`
	PresencePenalty  *float64                   `json:"presence_penalty"`
	FrequencyPenalty *float64                   `json:"frequency_penalty"`
	ResponseFormat   map[string]json.RawMessage `json:"response_format"`
}

// check holds the rules between fields: docs/wire/providers.md#perplexity.
func (r chatRequest) check() error {
	rest := slices.Clone(r.Messages)
	for len(rest) > 0 && rest[0].Role == "system" {
		rest = rest[1:]
	}
	for i, m := range rest {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want {
			return refuse("messages: after the system messages, user and assistant speak in turn; message %d must be of %s", len(r.Messages)-len(rest)+i+1, want)
		}
	}
	if len(rest)%2 == 0 {
		return refuse("messages: the last one must be of user")
	}
	if r.PresencePenalty != nil && r.FrequencyPenalty != nil {
		return refuse("presence_penalty and frequency_penalty cannot be given together")
	}
	if r.ResponseFormat != nil {
		var kind string
		if json.Unmarshal(r.ResponseFormat["type"], &kind) != nil || (kind != "text" && r.ResponseFormat[kind] == nil) {
			return refuse("response_format: the member %s must be there for the type %s", kind, kind)
		}
	}
	return nil
}

func (p perplexity) chat(ctx context.Context, c Call) (Result, error) {
	var in chatRequest
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return Result{}, refuse("%v", err)
	}
	if err := in.check(); err != nil {
		return Result{}, err
	}
	var out struct {
		Model   string `json:"model"`
		Choices []struct {
			Message message `json:"message"`
		} `json:"choices"`
		Usage         json.RawMessage `json:"usage"`
		Citations     json.RawMessage `json:"citations"`
		SearchResults json.RawMessage `json:"search_results"`
	}
	got, err := c.api.do(ctx, ask{method: http.MethodPost, url: c.api.base("baseUrl") + "/chat/completions", body: c.Arguments}, &out)
	if err != nil {
		return Result{}, err
	}
	data := map[string]any{"response": "", "fullResponse": json.RawMessage(got.Body), "model": out.Model, "usage": out.Usage}
	if len(out.Choices) > 0 {
		data["response"] = out.Choices[0].Message.Content
	}
	if len(out.Citations) > 0 {
		data["citations"] = out.Citations
	}
	if len(out.SearchResults) > 0 {
		data["searchResults"] = out.SearchResults
	}
	return Result{Data: data, Cost: p.cost(out.Usage)}, nil
}

// cost is the vendor's bill in whole credits, at least one.
func (p perplexity) cost(usage json.RawMessage) money.Amount {
	var u struct {
		Cost struct {
			Total json.Number `json:"total_cost"`
		} `json:"cost"`
	}
	if json.Unmarshal(usage, &u) != nil {
		return money.Credit
	}
	usd, err := money.ParseRat(u.Cost.Total.String())
	if err != nil {
		return money.Credit
	}
	return whole(p.dollars, usd)
}

// whole is a bill in dollars as whole credits, at least one.
func whole(dollars func(usd *big.Rat) (money.Amount, error), usd *big.Rat) money.Amount {
	credits, err := dollars(usd)
	if err != nil || credits <= money.Credit {
		return money.Credit
	}
	return (credits + money.Credit - 1) / money.Credit * money.Credit
}

// searchBatch is how many queries go into one request; each request is a
// credit.
const searchBatch = 5

func (p perplexity) search(ctx context.Context, c Call) (Result, error) {
	var in struct {
		Query []string `json:"query"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return Result{}, refuse("%v", err)
	}
	found := []json.RawMessage{}
	var cost money.Amount
	for batch := range slices.Chunk(in.Query, searchBatch) {
		var out struct {
			Results []json.RawMessage `json:"results"`
		}
		_, err := c.api.do(ctx, ask{method: http.MethodPost, url: c.api.base("baseUrl") + "/search", body: map[string]any{"query": batch}, harmless: true}, &out)
		if err != nil {
			return Result{}, err
		}
		for _, r := range out.Results {
			found = append(found, flat(r)...)
		}
		cost += money.Credit
	}
	return Result{Data: map[string]any{"searchResults": found, "totalQueries": len(in.Query), "totalResults": len(found)}, Cost: cost}, nil
}

// flat accepts a list of results for each query as well as one for all.
func flat(r json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(r, &list) == nil {
		return list
	}
	return []json.RawMessage{r}
}

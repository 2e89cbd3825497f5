package vendors

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/schema/jsontree"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/tool"
)

// apify is the actor for form 13F on Apify's platform.
type apify struct {
	dollars func(usd *big.Rat) (money.Amount, error)
}

// actor13F is the actor: docs/wire/providers.md#apify-13f.
const actor13F = "kenshinsee~sec-13f-manager-quarterly-report-scraper"

// How long one request waits for the end of a run, in seconds, and how large
// the pages of its items are.
const (
	waitForFinish = "20"
	itemsPage     = 1000
	maxItems      = 100_000
	// dollarsPerThousand is what so many items cost where the run does not say
	// it.
	dollarsPerThousand = 2
)

// actorRun is a run of an actor.
type actorRun struct {
	ID            string          `json:"id"`
	Status        string          `json:"status"`
	StatusMessage string          `json:"statusMessage"`
	Dataset       string          `json:"defaultDatasetId"`
	USD           json.Number     `json:"usageTotalUsd"`
	Pricing       json.RawMessage `json:"pricingInfo"`
}

// over reports whether a run has ended.
func (r actorRun) over() bool {
	return slices.Contains([]string{"SUCCEEDED", "FAILED", "ABORTED", "TIMED-OUT"}, r.Status)
}

// Call implements Client.
func (a apify) Call(ctx context.Context, c Call) (Result, error) {
	if c.Tool != "run13FActor" {
		return Result{}, unknown(c)
	}
	var in struct {
		Manager string `json:"manager_name"`
		Quarter string `json:"quarter_year"`
		File    string `json:"file_name"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return Result{}, refuse("%v", err)
	}
	run, err := a.run(ctx, c, map[string]string{"manager_name": in.Manager, "quarter_year": in.Quarter})
	if err != nil {
		return Result{}, err
	}
	items, err := a.items(ctx, c, run.Dataset)
	if err != nil {
		return Result{}, err
	}
	table, err := toCSV(items)
	if err != nil {
		return Result{}, err
	}
	name := strings.TrimSuffix(in.File, ".csv") + ".csv"
	return Result{
		Data: map[string]any{
			"items": items, "totalItems": len(items), "runId": run.ID,
			"file": map[string]string{"buffer": base64.StdEncoding.EncodeToString(table), "mimetype": "text/csv", "name": name},
		},
		Cost: a.cost(run, len(items)),
	}, nil
}

// cost is what the run cost, or its items where it has a price of that kind.
func (a apify) cost(run actorRun, items int) money.Amount {
	usd, err := money.ParseRat(run.USD.String())
	switch {
	case err == nil:
		return whole(a.dollars, usd)
	case len(run.Pricing) > 0 && string(run.Pricing) != "null":
		return whole(a.dollars, big.NewRat(dollarsPerThousand*int64(items), 1000))
	}
	return 0
}

// run starts the actor and waits for its end. Only the start has an effect. A
// run that nobody waits for any more is ended, since it costs.
func (a apify) run(ctx context.Context, c Call, input any) (actorRun, error) {
	var out struct {
		Data actorRun `json:"data"`
	}
	base := c.api.base("baseUrl") + "/v2"
	_, err := c.api.do(ctx, ask{method: http.MethodPost, url: base + "/acts/" + actor13F + "/runs", body: input}, &out)
	if err != nil {
		return out.Data, err
	}
	at := base + "/actor-runs/" + url.PathEscape(out.Data.ID)
	for before := ""; !out.Data.over(); {
		if out.Data.Status != before {
			before = out.Data.Status
			c.Report(ctx, "Apify: the run is "+before)
		}
		if _, err := c.api.do(ctx, ask{method: http.MethodGet, url: at + "?waitForFinish=" + waitForFinish}, &out); err != nil {
			_, failure := c.api.do(context.WithoutCancel(ctx), ask{method: http.MethodPost, url: at + "/abort"}, nil)
			return out.Data, errors.Join(err, failure)
		}
	}
	if out.Data.Status != "SUCCEEDED" {
		return out.Data, &tool.Failure{
			Code:    "TASK_FAILED",
			Message: strings.TrimSpace(fmt.Sprintf("The run of the actor ended as %s. %s", out.Data.Status, upstream.Limit(out.Data.StatusMessage, upstream.MaxReason))),
		}
	}
	return out.Data, nil
}

// items reads the dataset of a run, whole.
func (a apify) items(ctx context.Context, c Call, dataset string) ([]json.RawMessage, error) {
	items := []json.RawMessage{}
	for len(items) < maxItems {
		var page []json.RawMessage
		query := url.Values{"format": {"json"}, "clean": {"true"}, "offset": {strconv.Itoa(len(items))}, "limit": {strconv.Itoa(itemsPage)}}
		got, err := c.api.do(ctx, ask{method: http.MethodGet, url: c.api.base("baseUrl") + "/v2/datasets/" + url.PathEscape(dataset) + "/items?" + query.Encode()}, &page)
		if err != nil {
			return nil, err
		}
		items = append(items, page...)
		total, err := strconv.Atoi(got.Header.Get("X-Apify-Pagination-Total"))
		if len(page) == 0 || (err == nil && len(items) >= total) || (err != nil && len(page) < itemsPage) {
			break
		}
	}
	return items, nil
}

// toCSV writes objects as a table, the columns in the order in which they come.
func toCSV(items []json.RawMessage) ([]byte, error) {
	var columns []string
	rows := make([]*jsontree.Object, len(items))
	for i, raw := range items {
		v, err := jsontree.Parse(raw)
		row, ok := v.(*jsontree.Object)
		if err != nil || !ok {
			return nil, &tool.Failure{Code: upstream.CodeInvalid, Message: fmt.Sprintf("Row %d of the actor's result is no object.", i+1)}
		}
		rows[i] = row
		for _, name := range row.Names() {
			if !slices.Contains(columns, name) {
				columns = append(columns, name)
			}
		}
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.Write(columns); err != nil {
		return nil, err
	}
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, name := range columns {
			if row.Get(name) == nil {
				continue
			}
			if text, ok := row.Get(name).(string); ok {
				cells[i] = text
				continue
			}
			text, err := jsontree.Encode(row.Get(name))
			if err != nil {
				return nil, err
			}
			cells[i] = string(text)
		}
		if err := w.Write(cells); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

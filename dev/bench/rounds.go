package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// roundTrips is how many rounds of paused programs are measured.
const roundTrips = 400

// benchRounds measures a round of a program that pauses: from the request that
// brings the results to the answer with the next calls. The baseline is a
// request of the same size that does nothing.
func benchRounds(ctx context.Context, _ options) (_ []result, err error) {
	p, err := startPortico(ctx, 1, "CODEAPI_MAX_ROUNDS=100000", "CODEAPI_MAX_CALLS=100000")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	type answer struct {
		Status            string
		ContinuationToken string           `json:"continuation_token"`
		ToolCalls         []map[string]any `json:"tool_calls"`
		Error             string
	}
	send := func(path string, body any) (a answer, took time.Duration, err error) {
		text, err := json.Marshal(body)
		if err != nil {
			return a, 0, err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path, bytes.NewReader(text))
		if err != nil {
			return a, 0, err
		}
		r.Header.Set("X-API-Key", p.keys[0])
		r.Header.Set("Content-Type", "application/json")
		begin := time.Now()
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return a, 0, err
		}
		defer resp.Body.Close()
		err = json.NewDecoder(resp.Body).Decode(&a)
		return a, time.Since(begin), err
	}
	a, _, err := send("/exec/programmatic", map[string]any{
		"code": fmt.Sprintf("for n in range(%d): await ask(n=n)", roundTrips), "tools": []map[string]string{{"name": "ask"}},
	})
	if err != nil {
		return nil, err
	}
	var rounds, plain []time.Duration
	for a.Status == "tool_call_required" {
		next, took, err := send("/exec/programmatic", map[string]any{
			"continuation_token": a.ContinuationToken, "tool_results": []map[string]any{{"call_id": a.ToolCalls[0]["id"], "result": 1}},
		})
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, took)
		a = next
	}
	if a.Status != "completed" || len(rounds) != roundTrips {
		return nil, fmt.Errorf("the program ended %s after %d rounds: %s", a.Status, len(rounds), a.Error)
	}
	for range roundTrips {
		_, took, err := send("/exec/programmatic/cancel", map[string]any{"request_id": "none"})
		if err != nil {
			return nil, err
		}
		plain = append(plain, took)
	}
	p50, base := percentile(rounds, 0.5), percentile(plain, 0.5)
	return []result{{
		what: "pause and continue of /exec/programmatic, per round, p50 (a request that does nothing)", measured: ms(p50), baseline: ms(base),
		ratio: times(p50, base), target: "≤ 5 ms", holds: p50 <= 5*time.Millisecond,
	}}, nil
}

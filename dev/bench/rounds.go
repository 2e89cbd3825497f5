package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/portico-run/portico/dev/instance"
)

// roundTrips is how many rounds of paused programs are measured.
const roundTrips = 400

// round is the answer to a program that may pause.
type round struct {
	Status            string
	ContinuationToken string           `json:"continuation_token"`
	ToolCalls         []map[string]any `json:"tool_calls"`
	Error             string
}

// roundOf sends a request to a server and says how long the answer took.
func roundOf(ctx context.Context, at *portico, key, path string, body any) (a round, took time.Duration, err error) {
	begin := time.Now()
	_, text, err := post(ctx, http.DefaultClient, at.url+path, key, body)
	took = time.Since(begin)
	if err != nil {
		return a, 0, err
	}
	return a, took, json.Unmarshal(text, &a)
}

// resumed is the request that continues a program.
func (a round) resumed() map[string]any {
	return map[string]any{"continuation_token": a.ContinuationToken, "tool_results": []map[string]any{{"call_id": a.ToolCalls[0]["id"], "result": 1}}}
}

// pausingOften is a program that pauses so many times.
func pausingOften(times int) map[string]any {
	return map[string]any{"code": fmt.Sprintf("for n in range(%d): await ask(n=n)", times), "tools": []map[string]string{{"name": "ask"}}}
}

// benchRounds measures a round of a program that pauses: from the request that
// brings the results to the answer with the next calls. The baseline is a
// request of the same size that does nothing.
func benchRounds(ctx context.Context, _ options) (_ []result, err error) {
	p, err := startPortico(ctx, 1, "CODEAPI_MAX_ROUNDS=100000", "CODEAPI_MAX_CALLS=100000")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	a, _, err := roundOf(ctx, p, p.keys[0], "/exec/programmatic", pausingOften(roundTrips))
	if err != nil {
		return nil, err
	}
	var rounds, plain []time.Duration
	for a.Status == "tool_call_required" {
		next, took, err := roundOf(ctx, p, p.keys[0], "/exec/programmatic", a.resumed())
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
		_, took, err := roundOf(ctx, p, p.keys[0], "/exec/programmatic/cancel", map[string]any{"request_id": "none"})
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

// benchForwarded measures what it costs that a continuation comes to another process
// than the one that holds the program. The baseline is the one that holds it; they take
// turns within one program.
func benchForwarded(ctx context.Context, _ options) (_ []result, err error) {
	env := []string{"CODEAPI_MAX_ROUNDS=100000", "CODEAPI_MAX_CALLS=100000", "ENCRYPTION_KEY=" + strings.Repeat("0a", 32)}
	var places [2]string
	for i := range places {
		if places[i], err = instance.FreeAddress(ctx); err != nil {
			return nil, err
		}
	}
	holds, err := startPortico(ctx, 1, append(env, "PORTICO_PEER_LISTEN="+places[0])...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, holds.stop()) }()
	other, err := servePortico(ctx, holds.db, append(env, "PORTICO_PEER_LISTEN="+places[1])...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, other.stop()) }()
	a, _, err := roundOf(ctx, holds, holds.keys[0], "/exec/programmatic", pausingOften(2*roundTrips))
	var took [2][]time.Duration
	for n := 0; err == nil && a.Status == "tool_call_required"; n++ {
		var one time.Duration
		a, one, err = roundOf(ctx, []*portico{holds, other}[n%2], holds.keys[0], "/exec/programmatic", a.resumed())
		took[n%2] = append(took[n%2], one)
	}
	if err != nil {
		return nil, err
	}
	if a.Status != "completed" || len(took[1]) != roundTrips {
		return nil, fmt.Errorf("the program ended %s after %d rounds: %s", a.Status, 2*len(took[1]), a.Error)
	}
	here, there := percentile(took[0], 0.5), percentile(took[1], 0.5)
	return []result{{
		what: "a round at another process than that of the program, p50 added (at its own, p50)", measured: ms(there - here), baseline: ms(here),
		ratio: times(there, here), target: "≤ 1.5 ms", holds: there-here <= 1500*time.Microsecond,
	}}, nil
}

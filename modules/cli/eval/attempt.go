package eval

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing"
	creditreport "github.com/portico-run/portico/modules/billing/report"
	"github.com/portico-run/portico/modules/run/stream"
)

// outcome is one run: whether it did its task, and what its records say.
type outcome struct {
	Form    string `json:"form"`
	Task    string `json:"task"`
	Attempt int    `json:"attempt"`
	Success bool   `json:"success"`
	// Reason is why it did not do its task.
	Reason   string       `json:"reason"`
	Answer   string       `json:"answer"`
	Model    string       `json:"model"` // as the provider names it
	Requests int          `json:"requests"`
	Input    int64        `json:"inputTokens"`
	Cached   int64        `json:"cachedTokens"` // of the input
	Output   int64        `json:"outputTokens"`
	Credits  money.Amount `json:"credits"`
	Seconds  float64      `json:"seconds"`
	Warnings []string     `json:"warnings"`
}

// attempt makes one run and judges it. Its error is of the server or of the
// context; a run that fails is an outcome. What it cost is there in any case, as far
// as it is known.
func (s *site) attempt(ctx context.Context, u user, w work, allowed money.Amount) (outcome, error) {
	o := outcome{Form: w.form.name, Task: w.task.Name, Attempt: w.attempt, Warnings: []string{}}
	s.bench.services.Reset(u.world)
	if err := s.app.Credits.Service.SetLimits(ctx, u.UID, billing.Limits{Run: &allowed, Day: new(plenty), Overdraft: new(plenty)}); err != nil {
		return o, err
	}
	id := ids.New(ids.Run)
	watched := s.watch(ctx, u, w, id, &o)
	// What it has cost counts, whatever ended it.
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	var spent creditreport.Statement
	err := s.ask(reading, u, call{http.MethodGet, "/v1/credit/result?resultId=" + id, nil}, &spent)
	o.Credits = spent.Total
	if err := errors.Join(watched, err); err != nil {
		return o, err
	}
	if err := s.read(ctx, u, id, w.form.ptc, &o); err != nil {
		return o, err
	}
	if o.Reason == "" {
		if wrong := w.task.Check(o.Answer, s.bench.services.State(u.world)); wrong != nil {
			o.Reason = wrong.Error()
		}
	}
	o.Success = o.Reason == ""
	return o, nil
}

// maxEvent bounds one event of a run.
const maxEvent = 32 << 20

// watch begins a run and follows it to its end, counting what its events say of
// tokens.
func (s *site) watch(ctx context.Context, u user, w work, id string, o *outcome) error {
	resp, err := s.send(ctx, u, call{http.MethodPost, "/v1/skill/streamInvoke", map[string]any{
		"query": w.task.Question, "toolsets": w.task.Toolsets, "resultId": id, "ptc": w.form.ptc, "model": s.bench.plan.model,
	}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	ended := false
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Event string
			Usage struct {
				ModelName                                  string
				InputTokens, OutputTokens, CacheReadTokens int64
			} `json:"tokenUsage"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return err
		}
		switch e.Event {
		case "token_usage":
			o.Requests++
			o.Model = e.Usage.ModelName
			o.Input, o.Output, o.Cached = o.Input+e.Usage.InputTokens, o.Output+e.Usage.OutputTokens, o.Cached+e.Usage.CacheReadTokens
		case "end":
			ended = true
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if !ended {
		return fmt.Errorf("the stream of run %s broke off", id)
	}
	return nil
}

// read reads how a run ended: the last words of the model, how long it took, and why
// it failed.
func (s *site) read(ctx context.Context, u user, id, ptc string, o *outcome) error {
	for after := ""; ; {
		var r stream.ActionResult
		query := url.Values{"resultId": {id}}
		if after != "" {
			query.Set("messagesAfter", after)
			query.Set("version", "0")
		}
		if err := s.ask(ctx, u, call{http.MethodGet, "/v1/action/result?" + query.Encode(), nil}, &r); err != nil {
			return err
		}
		for _, m := range r.Messages {
			if m.Type == "ai" && m.Content != "" {
				o.Answer = m.Content
			}
		}
		if after = r.Cursor; after != "" {
			continue
		}
		o.Seconds = r.UpdatedAt.Sub(r.CreatedAt).Round(time.Millisecond).Seconds()
		o.Warnings = append(o.Warnings, r.Warnings...)
		if r.Status != "finish" {
			o.Reason = "the run ended with " + string(r.Status) + ": " + strings.Join(r.Errors, " ")
		}
		if r.Status == "finish" && r.PTCEnabled != (ptc == "on") {
			return fmt.Errorf("run %s was not in the form %s", id, o.Form)
		}
		return nil
	}
}

// call is a request of the API; a body is sent as JSON.
type call struct {
	method, path string
	body         any
}

func (s *site) send(ctx context.Context, u user, c call) (*http.Response, error) {
	var b bytes.Buffer
	if c.body != nil {
		if err := json.NewEncoder(&b).Encode(c.body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, c.method, s.url+c.path, &b)
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-API-Key", u.key)
	r.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(r)
}

// ask makes a request and decodes the data of its answer.
func (s *site) ask(ctx context.Context, u user, c call, data any) error {
	resp, err := s.send(ctx, u, c)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	var e struct{ Data json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
		return err
	}
	return json.Unmarshal(e.Data, data)
}

// refusal is the error of an answer that is none.
func refusal(resp *http.Response) error {
	var e struct{ ErrMsg, ErrDetail string }
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
		return fmt.Errorf("%s %s: %s: %w", resp.Request.Method, resp.Request.URL.Path, resp.Status, err)
	}
	return fmt.Errorf("%s %s: %s: %s %s", resp.Request.Method, resp.Request.URL.Path, resp.Status, e.ErrMsg, e.ErrDetail)
}

package configbased

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// Where asynchronous upstreams put things when a method does not say it; the
// first that is there counts (wire contract).
func taskIDPaths() []string {
	return []string{
		"id", "request_id", "requestId", "video_id", "videoId", "task_id", "taskId", "job_id", "jobId", "prediction_id", "predictionId",
		"data.id", "data.video_id", "data.task_id", "data.request_id", "data.job_id",
	}
}

func statusPaths() []string {
	return []string{"status", "state", "data.status", "data.state", "task.status"}
}

func reasonPaths() []string {
	return []string{"error", "error.message", "data.error", "data.error.message", "message", "error_message"}
}

func resultPaths() []string { return []string{"data", "result", "output"} }

func completedWords() []string { return []string{"completed", "success", "succeeded", "done"} }

func failedWords() []string { return []string{"failed", "error", "cancelled", "canceled"} }

// Waiting for an upstream that names no times.
const (
	pollWait     = 300 * time.Second
	pollInterval = 5 * time.Second
)

// task is a job of an upstream that was started and is asked about.
type task struct {
	executor *Executor
	in       tool.Invocation
	polling  toolset.Polling
	submit   plan // the request that started it
	secrets  secrets
}

// follow asks about a task until it has ended. Only the request that started
// it has an effect, so that asking may be repeated.
func (t task) follow(ctx context.Context, started response) tool.Outcome {
	if started.status < 200 || started.status > 299 {
		return started.outcome(t.secrets)
	}
	id := first(decode(started.body), pathsOr(t.polling.TaskIDPath, taskIDPaths()))
	if id == "" {
		return failed(t.secrets.scrub(&tool.Failure{
			Code: "POLLING_TASK_ID_NOT_FOUND", Message: "The upstream started a task and did not say its id. Upstream response: " + cut(started.body),
		}))
	}
	ask, failure := t.question(id)
	if failure != nil {
		return failed(failure)
	}
	wait, interval := pollWait, pollInterval
	if s := t.polling.MaxWaitSeconds; s > 0 {
		wait = time.Duration(s) * time.Second
	}
	if s := t.polling.IntervalSeconds; s > 0 {
		interval = time.Duration(s) * time.Second
	}
	before := ""
	for waited := time.Duration(0); ; waited += interval {
		got, err := t.send(ctx, ask)
		if err == nil {
			outcome, status, over := t.judge(ctx, got)
			if over {
				return outcome
			}
			if status != before {
				before = status
				t.in.Report(ctx, fmt.Sprintf("%s: %s", t.in.Method.Name, status))
			}
		}
		over := waited+interval > wait || t.executor.deps.Wait(ctx, interval) != nil
		if errors.Is(ctx.Err(), context.Canceled) {
			return failed(&tool.Failure{Code: "CANCELLED", Message: "The call was cancelled by its caller; the task goes on at the upstream."})
		}
		if over {
			return failed(&tool.Failure{
				Code:    "POLLING_TIMEOUT",
				Message: fmt.Sprintf("The task %s had not ended after %s; its last status was %q. It may still end at the upstream.", id, waited.Round(time.Second), before),
			})
		}
	}
}

// send makes one request, which may take as long as a call that does not wait.
func (t task) send(ctx context.Context, p plan) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, t.executor.deps.Timeout)
	defer cancel()
	return t.executor.send(ctx, p, t.in.Toolset.Egress)
}

// question is the request that asks about a task.
func (t task) question(id string) (plan, *tool.Failure) {
	address := t.polling.StatusURL
	if strings.HasPrefix(address, "/") {
		address = strings.TrimSuffix(t.in.Toolset.Domain, "/") + address
	}
	address = strings.ReplaceAll(strings.ReplaceAll(address, "{id}", url.PathEscape(id)), "{task_id}", url.PathEscape(id))
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return plan{}, &tool.Failure{Code: "INVALID_POLLING_URL", Message: "The address at which the toolset asks about its tasks is not a URL."}
	}
	p := t.request(u)
	p.method = http.MethodGet
	if t.polling.StatusMethod != "" {
		p.method = strings.ToUpper(t.polling.StatusMethod)
	}
	if len(t.polling.StatusBody) > 0 {
		quoted, err := json.Marshal(id)
		if err != nil {
			return plan{}, &tool.Failure{Code: "INVALID_RESPONSE", Message: "The id of the upstream's task is no text."}
		}
		inner := bytes.Trim(quoted, `"`)
		p.body = bytes.ReplaceAll(bytes.ReplaceAll(t.polling.StatusBody, []byte("{id}"), inner), []byte("{task_id}"), inner)
		p.header.Set("Content-Type", typeJSON)
	}
	return p, nil
}

// request is a request to another address of the upstream. The credential goes
// to the host that it is for and to no other, whatever an answer says.
func (t task) request(u *url.URL) plan {
	p := plan{url: u.String(), header: http.Header{"User-Agent": {"portico"}, "Accept": {typeJSON + ", */*;q=0.5"}}}
	if submitted, err := url.Parse(t.submit.url); err != nil || submitted.Host != u.Host || submitted.Scheme != u.Scheme {
		return p
	}
	for name, value := range t.in.Method.Adapter.Headers {
		if !strings.EqualFold(name, "Content-Type") {
			p.header.Set(name, value)
		}
	}
	p.url = p.authorize(p.url, t.in.Credential)
	return p
}

// judge reads an answer about a task. over is false while it goes on, and for
// refusals that pass.
func (t task) judge(ctx context.Context, got response) (out tool.Outcome, status string, over bool) {
	if slices.Contains([]int{429, 500, 502, 503, 504}, got.status) {
		return out, fmt.Sprintf("the upstream answers %d", got.status), false
	}
	if got.status < 200 || got.status > 299 {
		return got.outcome(t.secrets), "", true
	}
	body := decode(got.body)
	status = string(t.secrets.redact([]byte(first(body, pathsOr(t.polling.StatusPath, statusPaths())))))
	switch {
	case contains(t.polling.FailedStatuses, failedWords(), status):
		reason := first(body, reasonPaths())
		if reason == "" {
			reason = "the upstream says " + status
		}
		return failed(t.secrets.scrub(&tool.Failure{
			Code: "TASK_FAILED", Message: "The task failed: " + limit(reason, maxReason) + ". Upstream response: " + cut(got.body), Data: jsonOr(got.body),
		})), status, true
	case contains(t.polling.CompletedStatuses, completedWords(), status):
		return t.result(ctx, got, body), status, true
	case status == "":
		status = "waiting"
	}
	return out, status, false
}

// result is what a task that has ended came to.
func (t task) result(ctx context.Context, got response, body any) tool.Outcome {
	if path := t.polling.ResultPath; path != "" {
		found := at(body, path)
		if text, ok := found.(string); ok { // some upstreams put JSON into a text
			var inner any
			if json.Unmarshal([]byte(text), &inner) == nil {
				found = inner
			}
		}
		return t.whole(found)
	}
	if address, ok := at(body, "response_url").(string); ok {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			p := t.request(u)
			p.method = http.MethodGet
			final, err := t.send(ctx, p)
			if err != nil {
				return failed(t.secrets.scrub(unreachable(err, t.executor.deps.Timeout)))
			}
			return final.outcome(t.secrets)
		}
	}
	for _, path := range resultPaths() {
		if found, ok := at(body, path).(map[string]any); ok {
			return t.whole(found)
		}
	}
	return got.outcome(t.secrets)
}

func (t task) whole(v any) tool.Outcome {
	data, err := json.Marshal(v)
	if err != nil {
		return failed(&tool.Failure{Code: "INVALID_RESPONSE", Message: "The upstream's result has no JSON form."})
	}
	return tool.Outcome{Data: t.secrets.redact(data)}
}

func pathsOr(path string, usual []string) []string {
	if path != "" {
		return []string{path}
	}
	return usual
}

func contains(words, usual []string, status string) bool {
	if len(words) == 0 {
		words = usual
	}
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, status) })
}

// decode reads JSON with its numbers as they are; anything else is nil.
func decode(body []byte) any {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// at finds a value by a path with dots.
func at(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[name]
	}
	return v
}

// first is the first text, or number, at one of the paths.
func first(v any, paths []string) string {
	for _, path := range paths {
		switch found := at(v, path).(type) {
		case string:
			if found != "" {
				return found
			}
		case json.Number:
			return found.String()
		}
	}
	return ""
}

func jsonOr(body []byte) json.RawMessage {
	if json.Valid(body) {
		return body
	}
	return nil
}

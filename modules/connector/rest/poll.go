package rest

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

	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// Where asynchronous upstreams put things when a method does not say it; the
// first that is there counts: docs/wire/refly.md#polling.
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

func failedWords() []string {
	return []string{"failed", "error", "cancelled", "canceled", "not_found", "expired"}
}

// Waiting for an upstream that names no times.
const (
	pollWait     = 300 * time.Second
	pollInterval = 5 * time.Second
	resultTries  = 5 // of the result of a task that has ended
)

// task is a job of an upstream that was started and is asked about.
type task struct {
	executor *Connector
	in       tool.Invocation
	polling  toolset.Polling
	submit   upstream.Request // the request that started it
	secrets  upstream.Secrets
}

// follow asks about a task until it has ended. Only the request that started
// it has an effect, so that asking may be repeated.
func (t task) follow(ctx context.Context, started upstream.Response) tool.Outcome {
	if !started.OK() {
		return failed(started.Refusal(t.secrets))
	}
	if f := checked(t.in.Credential, started); f != nil {
		return failed(t.secrets.Scrub(f))
	}
	id := first(decode(started.Body), pathsOr(t.polling.TaskIDPath, taskIDPaths()))
	if id == "" {
		return failed(t.secrets.Scrub(&tool.Failure{
			Code: "POLLING_TASK_ID_NOT_FOUND", Message: "The upstream started a task and did not say its id. Upstream response: " + upstream.Quote(t.secrets.Redact(started.Body)),
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
		if lasting(err) {
			return t.lost(err)
		}
		if err == nil {
			done, status, over := t.judge(ctx, got)
			if over {
				return done
			}
			if status != before {
				before = status
				t.in.Report(ctx, fmt.Sprintf("%s: %s", t.in.Method.Name, status))
			}
		}
		over := waited+interval > wait || t.executor.deps.Upstream.Wait(ctx, interval) != nil
		if errors.Is(ctx.Err(), context.Canceled) {
			return failed(&tool.Failure{Code: "CANCELLED", Message: "The call was cancelled by its caller; the task goes on at the upstream."})
		}
		if over {
			message := fmt.Sprintf("The task %s had not ended after %s; its last status was %q. It may still end at the upstream.", id, waited.Round(time.Second), before)
			if f, ok := errors.AsType[*tool.Failure](err); ok {
				message += " The last question about it failed: " + f.Error()
			}
			return failed(t.secrets.Scrub(&tool.Failure{Code: "POLLING_TIMEOUT", Message: message}))
		}
	}
}

// lasting reports whether a question would fail in the same way again.
func lasting(err error) bool {
	f, ok := errors.AsType[*tool.Failure](err)
	return ok && slices.Contains([]string{upstream.CodeTooLarge, upstream.CodeRefused, upstream.CodeInvalidRequest}, f.Code)
}

// passing reports whether an upstream may answer otherwise a little later.
func passing(status int) bool { return slices.Contains([]int{429, 500, 502, 503, 504}, status) }

// send makes one request, which may take as long as a call that does not wait.
func (t task) send(ctx context.Context, r upstream.Request) (upstream.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, t.executor.deps.Timeout)
	defer cancel()
	r.Limit = t.executor.deps.Timeout
	if t.home(r.URL) {
		signed := request(r)
		signed.Header = r.Header.Clone()
		if err := signed.sign(t.in.Credential, t.executor.deps.Now()); err != nil {
			return upstream.Response{}, err
		}
		r = upstream.Request(signed)
	}
	return t.executor.deps.Upstream.Do(ctx, r)
}

// question is the request that asks about a task.
func (t task) question(id string) (upstream.Request, *tool.Failure) {
	address := t.polling.StatusURL
	if strings.HasPrefix(address, "/") {
		address = strings.TrimSuffix(t.in.Toolset.Domain, "/") + address
	}
	path, query, hasQuery := strings.Cut(address, "?")
	address = withID(path, url.PathEscape(id))
	if hasQuery {
		address += "?" + withID(query, url.QueryEscape(id))
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return upstream.Request{}, &tool.Failure{Code: "INVALID_POLLING_URL", Message: "The address at which the toolset asks about its tasks is not a URL."}
	}
	p := t.request(u)
	p.Method = http.MethodGet
	if t.polling.StatusMethod != "" {
		p.Method = strings.ToUpper(t.polling.StatusMethod)
	}
	if len(t.polling.StatusBody) > 0 {
		quoted, err := json.Marshal(id)
		if err != nil {
			return upstream.Request{}, &tool.Failure{Code: upstream.CodeInvalid, Message: "The id of the upstream's task is no text."}
		}
		inner := bytes.Trim(quoted, `"`)
		p.Body = []byte(withID(string(t.polling.StatusBody), string(inner)))
		for name, v := range t.in.Arguments {
			if value, ok := scalar(v); ok {
				if quoted, err = json.Marshal(value); err == nil {
					p.Body = bytes.ReplaceAll(p.Body, []byte("{"+name+"}"), quoted[1:len(quoted)-1])
				}
			}
		}
		p.Header.Set("Content-Type", typeJSON)
	}
	return p, nil
}

// withID puts the id of a task into its places.
func withID(template, id string) string {
	return strings.NewReplacer("{id}", id, "{task_id}", id).Replace(template)
}

// home reports whether an address is at the host that the task was started at:
// the one that the credential is for.
func (t task) home(address string) bool {
	u, err := url.Parse(address)
	submitted, failure := url.Parse(t.submit.URL)
	return err == nil && failure == nil && submitted.Host == u.Host && submitted.Scheme == u.Scheme
}

// request is a request to another address of the upstream. The credential goes
// to the host that it is for and to no other, whatever an answer says.
func (t task) request(u *url.URL) upstream.Request {
	p := request{URL: u.String(), Allow: t.in.Toolset.Egress, Header: http.Header{"User-Agent": {"portico"}, "Accept": {typeJSON + ", */*;q=0.5"}}}
	if !t.home(u.String()) {
		return upstream.Request(p)
	}
	placed := p.setHeaders(t.in.Method.Adapter.Headers, t.in.Credential)
	p.Header.Del("Content-Type")
	p.URL = p.authorize(p.URL, t.in.Credential, placed)
	return upstream.Request(p)
}

// judge reads an answer about a task. over is false while it goes on, and for
// refusals that pass.
func (t task) judge(ctx context.Context, got upstream.Response) (out tool.Outcome, status string, over bool) {
	if passing(got.Status) {
		return out, fmt.Sprintf("the upstream answers %d", got.Status), false
	}
	if !got.OK() {
		return failed(got.Refusal(t.secrets)), "", true
	}
	if f := checked(t.in.Credential, got); f != nil {
		return failed(t.secrets.Scrub(f)), "", true
	}
	body := decode(got.Body)
	status = string(t.secrets.Redact([]byte(first(body, pathsOr(t.polling.StatusPath, statusPaths())))))
	switch {
	case contains(t.polling.FailedStatuses, failedWords(), status):
		// Before it is cut: the beginning of a secret would stay.
		said := t.secrets.Redact(got.Body)
		reason := string(t.secrets.Redact([]byte(first(body, reasonPaths()))))
		if reason == "" {
			reason = "the upstream says " + status
		}
		return failed(t.secrets.Scrub(&tool.Failure{
			Code: "TASK_FAILED", Message: "The task failed: " + upstream.Limit(reason, upstream.MaxReason) + ". Upstream response: " + upstream.Quote(said), Data: jsonOr(said),
		})), status, true
	case contains(t.polling.CompletedStatuses, completedWords(), status):
		return t.result(ctx, got, body), status, true
	case status == "":
		status = "waiting"
	}
	return out, status, false
}

// result is what a task that has ended came to.
func (t task) result(ctx context.Context, got upstream.Response, body any) tool.Outcome {
	if path := t.polling.ResultPath; path != "" {
		found := at(body, path)
		if text, ok := found.(string); ok { // some upstreams put JSON into a text
			if raw := json.RawMessage(text); json.Valid(raw) {
				found = raw
			}
		}
		return t.whole(found)
	}
	if address, ok := at(body, "response_url").(string); ok {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			p := t.request(u)
			p.Method = http.MethodGet
			return t.fetch(ctx, p)
		}
	}
	for _, path := range resultPaths() {
		if found, ok := at(body, path).(map[string]any); ok {
			return t.whole(found)
		}
	}
	return outcome(got, t.secrets)
}

// fetch reads the result of a task that has ended, again where that failed for a
// moment.
func (t task) fetch(ctx context.Context, r upstream.Request) tool.Outcome {
	for n := 1; ; n++ {
		got, err := t.send(ctx, r)
		again := err != nil && !lasting(err) || err == nil && passing(got.Status)
		if again && n < resultTries && t.executor.deps.Upstream.Wait(ctx, pollInterval) == nil {
			continue
		}
		if err != nil {
			return t.lost(err)
		}
		return outcome(got, t.secrets)
	}
}

// lost is a task that could not be asked about, or whose result could not be fetched.
func (t task) lost(err error) tool.Outcome {
	f, ok := errors.AsType[*tool.Failure](err)
	if !ok {
		f = &tool.Failure{Code: upstream.CodeInvalid, Message: "The task cannot be followed."}
	}
	return failed(t.secrets.Scrub(f))
}

func (t task) whole(v any) tool.Outcome {
	data, err := json.Marshal(v)
	if err != nil {
		return failed(&tool.Failure{Code: upstream.CodeInvalid, Message: "The upstream's result has no JSON form."})
	}
	return tool.Outcome{Data: t.secrets.Redact(data)}
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

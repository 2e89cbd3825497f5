// Package demos runs Portico's demonstrations and prints what a caller sees of
// them: everything that they show came over HTTP.
package demos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/dev/demo"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/report"
)

// demoCredits is what the demo's user gets to spend, once.
const demoCredits = 1000 * money.Credit

// Demos is what the demonstrations need.
type Demos struct {
	// Options say where the configuration comes from.
	Options configs.Options
	// Open wires an app of a configuration; its log begins at the level.
	Open func(ctx context.Context, o configs.Options, least slog.Level) (*app.App, error)
	// Out is where the demonstration is shown.
	Out io.Writer
}

// stopTimeout bounds the stop of a server that was started for a demonstration.
const stopTimeout = 30 * time.Second

// Program runs the bundled program on the server of the configuration, or on
// one of its own where none answers. A signal ends it.
func (d Demos) Program(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	a, err := d.Open(ctx, d.Options, slog.LevelWarn)
	if err != nil {
		return err
	}
	return errors.Join(d.programOn(ctx, a), a.Close())
}

func (d Demos) programOn(ctx context.Context, a *app.App) (err error) {
	url := a.Config.Server.Endpoint
	if !answers(ctx, url) {
		a.Config.Server.Listen = "127.0.0.1:0"
		if _, err := a.Prepare(ctx); err != nil {
			return err
		}
		s, err := a.Start(ctx, d.Options)
		if err != nil {
			return err
		}
		defer func() {
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			err = errors.Join(err, s.Stop(stopping))
		}()
		url = "http://" + s.Addr().String()
		fmt.Fprintf(d.Out, "No server answers on %s; one was started for the demo.\n", a.Config.Server.Endpoint)
	}
	key, revoke, err := demoKey(ctx, a)
	if err != nil {
		return err
	}
	if err := Loaded(ctx, a); err != nil {
		return errors.Join(err, revoke())
	}
	shown := demonstration{out: d.Out, url: url, key: key.Reveal(), resultID: ids.New(ids.Run)}
	return errors.Join(shown.run(ctx), revoke())
}

// ErrOff is returned where the operator has turned the demonstration off.
var ErrOff = errs.New(errs.Conflict, "The demo is off.").Do("Set DEMO_ENABLED=true and start the server again.")

// Loaded returns an error where the toolset that the demonstration calls is not
// loaded.
func Loaded(ctx context.Context, a *app.App) error {
	_, err := a.Inventory.Holdings(ctx, "demo")
	if errs.CodeOf(err) != errs.ToolsetMissing {
		return err
	}
	if !a.Config.Demo.Enabled {
		return ErrOff
	}
	return errs.New(errs.ToolsetMissing, "The demo toolset is not loaded.").
		Do("Start the server in a folder with configs/toolsets/demo.yaml, name its folder with TOOLSETS_DIR, or load it with `portico toolset apply -f FILE`.")
}

// answers reports whether a Portico serves on a URL.
func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// errForeign says that a key of this configuration's database means nothing to
// the server.
var errForeign = errors.New("the server that answers uses another database than this command: run it where the server was started, or set DATABASE_URL as there")

// demoKey makes a key of the first user for as long as the demo runs, a day at
// most, and gives the user credits to spend.
func demoKey(ctx context.Context, a *app.App) (key account.Plaintext, revoke func() error, err error) {
	users, err := a.Accounts.Service.Users(ctx)
	if err != nil {
		return "", nil, err
	}
	if len(users) == 0 {
		return "", nil, errForeign
	}
	who := actor.Actor{UID: users[0].UID, Scope: actor.Full}
	err = a.Credits.Service.Grant(ctx, who.UID, billing.Recharge{
		ID: "demo-" + who.UID, Amount: demoCredits, Source: "gift", Text: "credits for the demo", ExpiresAt: time.Now().AddDate(1, 0, 0),
	})
	if err != nil {
		return "", nil, err
	}
	made, key, err := a.Accounts.Service.CreateKey(ctx, who, "demo", 1)
	return key, func() error {
		return a.Accounts.Service.RevokeKey(context.WithoutCancel(ctx), who, made.ID)
	}, err
}

// demonstration is one run of the bundled program, seen from outside: what it
// shows came over HTTP.
type demonstration struct {
	out      io.Writer
	url, key string
	resultID string
}

func (d demonstration) run(ctx context.Context) error {
	fmt.Fprintf(d.out, "\nThe program (dev/demo/program.py) makes 12 tool calls, 8 of them at once, and one fails.\n\n")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type ended struct {
		outcome demoOutcome
		err     error
	}
	done := make(chan ended, 1)
	go func() {
		var o demoOutcome
		err := d.ask(ctx, http.MethodPost, "/v1/sandbox/execute", map[string]any{
			"code": demo.Program(), "language": "python", "toolsets": []string{"demo"}, "resultId": d.resultID, "title": "Portico demo",
		}, &o)
		if err != nil {
			cancel() // there is nothing to watch
		}
		done <- ended{o, err}
	}()
	watched := d.watch(ctx)
	e := <-done
	if e.err != nil {
		return e.err
	}
	if watched != nil {
		return watched
	}
	return d.report(ctx, e.outcome)
}

type demoOutcome struct {
	Stderr     string   `json:"stderr"`
	Status     string   `json:"status"`
	DurationMS int64    `json:"durationMs"`
	CallID     string   `json:"callId"`
	Warnings   []string `json:"warnings"`
	ToolCalls  []struct {
		ToolName string `json:"toolName"`
		Status   string `json:"status"`
	} `json:"toolCalls"`
}

func (d demonstration) request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var b bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&b).Encode(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, d.url+path, &b)
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-API-Key", d.key)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return http.DefaultClient.Do(r)
}

// ask makes a request and decodes the data of its answer.
func (d demonstration) ask(ctx context.Context, method, path string, body, data any) error {
	resp, err := d.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	return decodeAnswer(resp, data)
}

// decodeAnswer reads the data of an answer, or its refusal.
func decodeAnswer(resp *http.Response, data any) error {
	defer resp.Body.Close()
	method, path := resp.Request.Method, resp.Request.URL.Path
	var e struct {
		Data   json.RawMessage `json:"data"`
		ErrMsg string          `json:"errMsg"`
		Detail string          `json:"errDetail"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
		return fmt.Errorf("%s %s: %s: %w", method, path, resp.Status, err)
	}
	if resp.StatusCode == http.StatusUnauthorized {
		return errForeign
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s %s", method, path, resp.Status, e.ErrMsg, e.Detail)
	}
	return json.Unmarshal(e.Data, data)
}

// watch shows the events of the run until its end.
func (d demonstration) watch(ctx context.Context) error {
	resp, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	begin := time.Now()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			d.show(time.Since(begin), []byte(data))
		}
	}
	return lines.Err()
}

// connect opens the stream. The run is created by the request beside it, so
// that it may not be there yet.
func (d demonstration) connect(ctx context.Context) (*http.Response, error) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		resp, err := d.request(ctx, http.MethodGet, "/v1/action/"+d.resultID+"/events", nil)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			return nil, fmt.Errorf("the event stream answered %s", resp.Status)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (d demonstration) show(at time.Duration, data []byte) {
	var e struct {
		Event string `json:"event"`
		Meta  struct {
			ToolName   string `json:"toolName"`
			ToolsetKey string `json:"toolsetKey"`
			StartTS    int64  `json:"startTs"`
			EndTS      int64  `json:"endTs"`
		} `json:"toolCallMeta"`
		Result struct {
			Error string `json:"error"`
		} `json:"toolCallResult"`
		Log struct {
			Content string `json:"content"`
		} `json:"log"`
		Content string `json:"content"`
		Usage   struct {
			Input  int `json:"inputTokens"`
			Output int `json:"outputTokens"`
		} `json:"tokenUsage"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		fmt.Fprintf(d.out, "%s\n", data)
		return
	}
	text := e.Meta.ToolsetKey + "." + e.Meta.ToolName
	switch e.Event {
	case "tool_call_end":
		text += fmt.Sprintf("  %d ms", e.Meta.EndTS-e.Meta.StartTS)
	case "tool_call_error":
		text += "  " + e.Result.Error
	case "log":
		text = indent(e.Log.Content)
	case "tool_call_stream":
		text = "(the model writes a call of " + e.Meta.ToolName + ")"
	case "stream":
		text = indent(strings.TrimSpace(e.Content))
	case "token_usage":
		text = fmt.Sprintf("%d in, %d out, as the model reports them", e.Usage.Input, e.Usage.Output)
	case "start", "end":
		text = d.resultID
	}
	fmt.Fprintf(d.out, "%7.3fs  %-17s  %s\n", at.Seconds(), e.Event, text)
}

// indent keeps the lines of a text below each other.
func indent(text string) string { return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 29)) }

// report shows what was recorded and what it cost.
func (d demonstration) report(ctx context.Context, o demoOutcome) error {
	fmt.Fprintf(d.out, "\nThe program %s after %d ms and made %d calls.\n", o.Status, o.DurationMS, len(o.ToolCalls))
	for _, w := range o.Warnings {
		fmt.Fprintf(d.out, "Warning: %s\n", w)
	}
	if o.Status != "completed" {
		return fmt.Errorf("the demo program did not complete:\n%s", o.Stderr)
	}
	var page struct {
		Items []struct {
			CallID    string `json:"callId"`
			ToolsetID string `json:"toolsetId"`
			ToolName  string `json:"toolName"`
			Status    string `json:"status"`
			CreatedAt int64  `json:"createdAt"`
			UpdatedAt int64  `json:"updatedAt"`
		} `json:"items"`
	}
	var usage struct {
		Items []struct {
			ToolCallID string       `json:"toolCallId"`
			Amount     money.Amount `json:"amount"`
		} `json:"items"`
	}
	var total report.Statement
	var balance billing.Balance
	for path, into := range map[string]any{
		"/v1/tool/calls?limit=200&resultId=" + d.resultID: &page, "/v1/credit/usage?limit=200": &usage,
		"/v1/credit/result?resultId=" + d.resultID: &total, "/v1/credit/balance": &balance,
	} {
		if err := d.ask(ctx, http.MethodGet, path, nil, into); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.out, "\nRecords (GET /v1/tool/calls?resultId=%s):\n\n", d.resultID)
	for _, call := range page.Items {
		credits := "-"
		if i := slices.IndexFunc(usage.Items, func(u struct {
			ToolCallID string       `json:"toolCallId"`
			Amount     money.Amount `json:"amount"`
		},
		) bool {
			return u.ToolCallID == call.CallID
		}); i >= 0 {
			credits = usage.Items[i].Amount.String()
		}
		fmt.Fprintf(d.out, "  %-43s %-9s %5d ms  %4s credits  %s.%s\n",
			call.CallID, call.Status, call.UpdatedAt-call.CreatedAt, credits, call.ToolsetID, call.ToolName)
	}
	fmt.Fprintf(d.out, "\nSpent: %s credits. Balance: %s.\n", total.Charged, balance.Net)
	return nil
}

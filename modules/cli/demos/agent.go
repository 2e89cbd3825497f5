package demos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/dev/demo"
	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/billing/report"
	"github.com/portico-run/portico/modules/catalogue/signature"
	"github.com/portico-run/portico/modules/toolset/file"
)

// Prices of the demo's model, in credits for a million tokens.
const (
	demoInputPrice  = "300"
	demoOutputPrice = "1200"
)

// Agent runs an agent with the scripted model, on a server and a database of
// its own that are gone afterwards, and saves its chart as picture.
func (d Demos) Agent(ctx context.Context, picture string) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	folder, err := os.MkdirTemp("", "portico-demo-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	script, err := scripted.Parse([]byte(demo.AgentScript()))
	if err != nil {
		return err
	}
	model := scripted.New(script)
	address, end, err := scripted.Serve(ctx, "127.0.0.1:0", model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	upstream, err := freePort(ctx)
	if err != nil {
		return err
	}
	options := configs.Options{File: d.Options.File, Environ: append(slices.Clone(d.Options.Environ),
		"PORTICO_MODE=development", "PORTICO_LISTEN=127.0.0.1:0", "DATABASE_URL=sqlite:"+filepath.Join(folder, "demo.db"),
		"OBJECT_STORAGE_DRIVER=folder", "OBJECT_STORAGE_FOLDER="+filepath.Join(folder, "objects"), "TOOLSETS_DIR=", "DEMO_ENABLED=true", "DEMO_LISTEN="+upstream,
		"PTC_MODE=on", "PTC_DEBUG=", "PTC_TOOLSET_BLOCKLIST=", "PTC_TOOLSET_ALLOWLIST="+demo.Shop, "PTC_ROLLOUT_PERCENT=100", "SANDBOX_S3LIB_HASH=",
		"AGENT_BUILTINS=all", "AGENT_CODE_TOOL_NAME=execute_code", "AGENT_LIFECYCLE_TOOLS=false",
		"FLAT_TOOLS=false", // both ways have the same tools: only code could call these
		"MODEL_BASE_URL=http://"+address, "MODEL_NAME=scripted", "MODEL_API_KEY=none", "MODEL_HEADERS=", "MODEL_INPUT_PRICE="+demoInputPrice, "MODEL_OUTPUT_PRICE="+demoOutputPrice,
	)}
	return d.on(ctx, options, openShop, func(_ *app.App, with demonstration) error { return agentDemo{with, model, picture}.run(ctx) })
}

// openShop loads the toolset of the made-up shop, under both of its keys.
func openShop(ctx context.Context, a *app.App) error {
	var files []file.File
	for _, key := range []string{demo.Shop, demo.PlainShop} {
		content, err := demo.ShopFile(key)
		if err != nil {
			return err
		}
		files = append(files, file.File{Name: key, Content: content})
	}
	_, err := a.ToolsetFiles.Apply(ctx, files)
	return err
}

// freePort is an address that nobody listens on.
func freePort(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// agentDemo asks an agent twice, with code and without, and compares. What it
// shows came over HTTP, but for the tokens, which are those of the requests
// that the scripted model got.
type agentDemo struct {
	demonstration

	model   *scripted.Server
	picture string // where the chart is saved
}

func (d agentDemo) run(ctx context.Context) error {
	fmt.Fprintf(d.out, "The model is SCRIPTED: it says what dev/demo/agent.yaml says. All else is real.\n\n")
	canvas, err := d.upload(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nUser: %s\nIt may use the 30 tools of a made-up shop. Live:\n\n", demo.Question)
	coded, err := d.invoke(ctx, canvas, demo.Question, demo.Shop, true)
	if err != nil {
		return err
	}
	if err := d.transcript(ctx, coded.id); err != nil {
		return err
	}
	if err := d.chart(ctx, canvas); err != nil {
		return err
	}
	plain, err := d.invoke(ctx, canvas, demo.Plainly+demo.Question, demo.PlainShop, false)
	if err != nil {
		return err
	}
	return d.compare(ctx, coded, plain)
}

// upload sends the table of targets to a new canvas.
func (d agentDemo) upload(ctx context.Context) (canvas string, err error) {
	var made struct{ CanvasID string }
	if err := d.ask(ctx, http.MethodPost, "/v1/canvas/create", map[string]string{"title": "Shop"}, &made); err != nil {
		return "", err
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "targets.csv")
	if err == nil {
		_, err = io.WriteString(part, demo.Targets)
	}
	if err := errors.Join(err, form.WriteField("canvasId", made.CanvasID), form.Close()); err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/v1/drive/file/upload", &body)
	if err != nil {
		return "", err
	}
	r.Header.Set("X-API-Key", d.key)
	r.Header.Set("Content-Type", form.FormDataContentType())
	var file struct{ Name, Summary string }
	resp, err := http.DefaultClient.Do(r)
	if err == nil {
		err = decodeAnswer(resp, &file)
	}
	if err != nil {
		return "", err
	}
	fmt.Fprintf(d.out, "Uploaded targets.csv, kept as %s. %s\n", file.Name, file.Summary)
	return made.CanvasID, nil
}

// asked is one run of the agent.
type asked struct {
	id       string
	requests []json.RawMessage // that the model got
}

// invoke asks the agent and waits for the end, watching the run live if it is to
// be shown.
func (d agentDemo) invoke(ctx context.Context, canvas, question, toolset string, show bool) (asked, error) {
	before := len(d.model.Requests())
	d.resultID = ids.New(ids.Run)
	err := d.ask(ctx, http.MethodPost, "/v1/skill/invoke", map[string]any{
		"query": question, "toolsets": []string{toolset}, "canvasId": canvas, "resultId": d.resultID,
	}, &struct{}{})
	if err != nil {
		return asked{}, err
	}
	if !show {
		d.out = io.Discard
	}
	if err := d.watch(ctx); err != nil {
		return asked{}, err
	}
	var ended struct {
		Status string
		Errors []string
	}
	if err := d.ask(ctx, http.MethodGet, "/v1/action/result?resultId="+d.resultID, nil, &ended); err != nil {
		return asked{}, err
	}
	if ended.Status != "finish" {
		return asked{}, fmt.Errorf("the run ended with %s: %s", ended.Status, strings.Join(ended.Errors, " "))
	}
	return asked{d.resultID, d.model.Requests()[before:]}, nil
}

// transcript shows the messages of a run.
func (d agentDemo) transcript(ctx context.Context, id string) error {
	var r struct {
		ModelName string
		Messages  []struct {
			Type, Content string
			IsPTC         bool
			ToolCallMeta  struct{ ToolName, Status string }
		}
	}
	if err := d.ask(ctx, http.MethodGet, "/v1/action/result?resultId="+id, nil, &r); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nTranscript, all that the model was given back (GET /v1/action/result?resultId=%s):\n", id)
	for _, m := range r.Messages {
		if m.IsPTC || m.Content == "" {
			continue // what programs called stays in them; an answer may have calls only
		}
		who := map[string]string{"human": "user", "ai": r.ModelName}[m.Type]
		if who == "" {
			who = m.ToolCallMeta.ToolName + " " + m.ToolCallMeta.Status
		}
		fmt.Fprintf(d.out, "\n[%s]\n%s\n", who, strings.TrimSpace(m.Content))
	}
	return nil
}

// chart fetches the chart of the canvas.
func (d agentDemo) chart(ctx context.Context, canvas string) error {
	var page struct {
		Items []struct {
			FileID, Name, Type string
			Size               int64
		}
	}
	if err := d.ask(ctx, http.MethodGet, "/v1/drive/file/list?canvasId="+canvas, nil, &page); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nFiles of the canvas:\n\n")
	for _, f := range page.Items {
		fmt.Fprintf(d.out, "  %-40s %8d bytes  %s\n", f.Name, f.Size, f.Type)
		if f.Type != "image/png" {
			continue
		}
		resp, err := d.request(ctx, http.MethodGet, "/v1/drive/file/content/"+f.FileID, nil)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close(), os.MkdirAll(filepath.Dir(d.picture), 0o750), os.WriteFile(d.picture, content, 0o600)); err != nil {
			return err
		}
		fmt.Fprintf(d.out, "  %-40s saved as %s\n", "", d.picture)
	}
	return nil
}

// compare shows what both ways cost.
func (d agentDemo) compare(ctx context.Context, coded, plain asked) error {
	counter := signature.NewCounter()
	fmt.Fprintf(d.out, "\nThe same question without code, for comparison. Prompt tokens (o200k_base, of the requests as they were sent):\n\n")
	fmt.Fprintf(d.out, "  %-22s %9s %15s %15s %10s\n", "", "requests", "first request", "all requests", "credits")
	totals := [2]int{}
	for i, a := range []asked{coded, plain} {
		first := 0
		for n, raw := range a.requests {
			tokens, err := promptTokens(counter, raw)
			if err != nil {
				return err
			}
			if n == 0 {
				first = tokens
			}
			totals[i] += tokens
		}
		var spent report.Statement
		if err := d.ask(ctx, http.MethodGet, "/v1/credit/result?resultId="+a.id, nil, &spent); err != nil {
			return err
		}
		fmt.Fprintf(d.out, "  %-22s %9d %15d %15d %10s\n", []string{"with code (PTC)", "plain tool calling"}[i], len(a.requests), first, totals[i], spent.Charged)
	}
	_, err := fmt.Fprintf(d.out, "\nPTC used %.0f %% fewer prompt tokens.\n", 100*(1-float64(totals[0])/float64(totals[1])))
	return err
}

// promptTokens counts what the model reads of a request.
func promptTokens(c *signature.Counter, raw []byte) (int, error) {
	var body struct {
		Input json.RawMessage `json:"input"`
		Tools json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return 0, err
	}
	return c.Count(string(body.Input) + string(body.Tools))
}

package demos

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/toolset/mark"
)

//go:embed tools.py
var toolsProgram string

// hello is the script of the demo's model: it says where the key is, and answers
// every other question alike.
const hello = `name: tools
turns:
- output: [{text: Hello.}]
- on: Where is the key
  output: [{text: "In the boathouse, on the second hook from the door [1]."}]
`

// step is a part of the demonstration.
type step struct {
	title string
	run   func(ctx context.Context, d toolsDemo) error
}

// steps are those of the demonstration, in their order.
func steps() []step {
	return []step{
		{"A tool is marked, and programs call it as a plain function", plainFunctions},
		{"The same functions in a Python that is no sandbox of Portico's", elsewhere},
		{"An MCP server is added, and programs call its tools", serverOfTools},
		{"A folder of documents is added, and programs search it and ask it", documents},
		{"All of it in one program, which checks what it sees", criteria},
	}
}

// Tools shows how tools from anywhere come into programs, on a server and a
// database of its own that are gone afterwards.
func (d Demos) Tools(ctx context.Context) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	folder, err := os.MkdirTemp("", "portico-demo-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	script, err := scripted.Parse([]byte(hello))
	if err != nil {
		return err
	}
	address, end, err := scripted.Serve(ctx, "127.0.0.1:0", scripted.New(script))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	upstream, err := freePort(ctx)
	if err != nil {
		return err
	}
	return d.on(ctx, configs.Options{File: d.Options.File, Environ: append(slices.Clone(d.Options.Environ),
		"PORTICO_MODE=development", "PORTICO_LISTEN=127.0.0.1:0", "DATABASE_URL=sqlite:"+filepath.Join(folder, "demo.db"),
		"OBJECT_STORAGE_DRIVER=folder", "OBJECT_STORAGE_FOLDER="+filepath.Join(folder, "objects"), "DEMO_ENABLED=true", "DEMO_LISTEN="+upstream,
		"PTC_MODE=on", "PTC_DEBUG=", "PTC_TOOLSET_BLOCKLIST=", "PTC_TOOLSET_ALLOWLIST=", "PTC_ROLLOUT_PERCENT=100", "SANDBOX_S3LIB_HASH=",
		"FLAT_TOOLS=true", "FETCH_EGRESS=127.0.0.0/8", "MODEL_NAME=scripted", "LLM_QUERY_MODEL=scripted", "MODEL_BASE_URL=http://"+address, "MODEL_API_KEY=none", "MODEL_HEADERS=",
	)}, Loaded, func(a *app.App, with demonstration) error {
		for n, one := range steps() {
			fmt.Fprintf(d.Out, "\n%d. %s\n\n", n+1, one.title)
			if err := one.run(ctx, toolsDemo{with, a}); err != nil {
				return fmt.Errorf("step %d: %w", n+1, err)
			}
		}
		return nil
	})
}

// toolsDemo is a user of the server, and its operator.
type toolsDemo struct {
	demonstration

	app *app.App
}

// program runs a program with toolsets and shows what it prints.
func (d toolsDemo) program(ctx context.Context, code string, toolsets ...string) error {
	var o struct{ Stdout, Stderr, Status string }
	err := d.ask(ctx, http.MethodPost, "/v1/sandbox/execute", map[string]any{"code": code, "language": "python", "toolsets": toolsets}, &o)
	if err != nil {
		return err
	}
	fmt.Fprint(d.out, indented(o.Stdout))
	if o.Status != "completed" {
		return fmt.Errorf("the program did not complete:\n%s", o.Stderr)
	}
	return nil
}

// indented moves lines to the right.
func indented(text string) string {
	return "   " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n   ") + "\n"
}

func plainFunctions(ctx context.Context, d toolsDemo) error {
	made, err := d.app.Flat.Service.Mark(ctx, mark.Mark{Toolset: "demo", Tool: "get_weather"})
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "   portico tool mark %s %s\n\n", made.Toolset, made.Tool)
	return d.program(ctx, toolsProgram)
}

func elsewhere(ctx context.Context, d toolsDemo) error {
	resp, err := d.request(ctx, http.MethodGet, "/v1/sandbox/stubs?callbackUrl="+d.url, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the functions could not be had: %s: %s", resp.Status, text)
	}
	python := exec.CommandContext(ctx, "python3", "-I", "-")
	python.Stdin = strings.NewReader(string(text) + "\nprint(get_weather(\"Rome\", days=1)[\"city\"], llm_query(\"Say hello.\"))\n")
	python.Env = []string{"PORTICO_API_KEY=" + d.key}
	out, err := python.CombinedOutput()
	fmt.Fprint(d.out, indented(string(out)))
	return err
}

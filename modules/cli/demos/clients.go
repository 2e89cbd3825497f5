package demos

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/modules/app"
)

//go:embed clients.yaml
var clientsScript string

//go:embed clients
var clientPrograms embed.FS

// clientsQuestion is what each client asks.
const clientsQuestion = "Orders 1 and 2: what do they come to, and where is it warmer, of the cities they go to?"

// clientTimeout bounds one client.
const clientTimeout = 5 * time.Minute

// vendorClient is a program that asks with a client of a vendor's.
type vendorClient struct {
	name, form, file string
}

func vendorClients() []vendorClient {
	return []vendorClient{
		{"openai (npm)", "Responses", "openai.mjs"},
		{"openai-agents (PyPI)", "Responses", "openai_agents.py"},
		{"anthropic (PyPI), tool runner", "Messages", "anthropic_runner.py"},
		{"@anthropic-ai/sdk (npm)", "Messages", "messages.mjs"},
		{"ai (npm), Vercel AI SDK", "Chat Completions", "ai.mjs"},
	}
}

// Asking is how the demonstration of clients asks.
type Asking struct {
	// Vendors is the folder with the clients: tools/vendors.sh installs them.
	Vendors string
	// Configured asks the model of the configuration, instead of the scripted one.
	Configured bool
}

// Clients asks the same question through five clients of vendors, on a server and a
// database of its own that are gone afterwards.
func (d Demos) Clients(ctx context.Context, with Asking) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if with.Vendors, err = filepath.Abs(with.Vendors); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(with.Vendors, "node_modules")); err != nil {
		return fmt.Errorf("there are no clients in %s: tools/vendors.sh installs them", with.Vendors)
	}
	folder, err := os.MkdirTemp("", "portico-demo-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := os.CopyFS(folder, clientPrograms); err != nil {
		return err
	}
	upstream, err := freePort(ctx)
	if err != nil {
		return err
	}
	environ := append(slices.Clone(d.Options.Environ),
		"PORTICO_MODE=development", "PORTICO_LISTEN=127.0.0.1:0", "DATABASE_URL=sqlite:"+filepath.Join(folder, "demo.db"),
		"OBJECT_STORAGE_DRIVER=folder", "OBJECT_STORAGE_FOLDER="+filepath.Join(folder, "objects"), "DEMO_ENABLED=true", "DEMO_LISTEN="+upstream,
		"PTC_MODE=on", "PTC_DEBUG=", "PTC_TOOLSET_BLOCKLIST=", "PTC_TOOLSET_ALLOWLIST=demo", "PTC_ROLLOUT_PERCENT=100", "SANDBOX_S3LIB_HASH=", "OPENAI_API=true", "ANTHROPIC_API=true",
	)
	if !with.Configured {
		address, end, err := serveScript(ctx, clientsScript)
		if err != nil {
			return err
		}
		defer func() { _ = end() }() // it has served what it had to
		environ = append(environ, "MODEL_FILE=", "MODEL_PROTOCOL=responses", "MODEL_BASE_URL=http://"+address, "MODEL_NAME=scripted", "MODEL_API_KEY=none", "MODEL_HEADERS=", "MODEL_INPUT_PRICE="+demoInputPrice, "MODEL_OUTPUT_PRICE="+demoOutputPrice)
		fmt.Fprintf(d.Out, "The model is SCRIPTED: it says what modules/cli/demos/clients.yaml says. All else is real.\n\n")
	}
	return d.on(ctx, configs.Options{File: d.Options.File, Environ: environ}, Loaded, func(_ *app.App, on demonstration) error {
		shown := clientsDemo{on, with.Vendors, filepath.Join(folder, "clients"), nil}
		for _, one := range d.Options.Environ {
			if strings.HasPrefix(one, "PATH=") {
				shown.search = []string{one}
			}
		}
		return shown.run(ctx)
	})
}

func serveScript(ctx context.Context, text string) (address string, end func() error, err error) {
	script, err := scripted.Parse([]byte(text))
	if err != nil {
		return "", nil, err
	}
	return scripted.Serve(ctx, "127.0.0.1:0", scripted.New(script))
}

// clientsDemo runs clients, and shows what each of them saw.
type clientsDemo struct {
	demonstration

	vendors, programs string
	search            []string // PATH, as the environment has it
}

// clientSaw is what a client prints of its conversation.
type clientSaw struct {
	Requests, Prompt, Completion, Calls int
	Answer                              string
}

func (d clientsDemo) run(ctx context.Context) error {
	model, err := d.model(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "User: %s\nget_order is a function of the client's; get_weather is a tool of the server's. The model is %s.\n\n", clientsQuestion, model)
	table := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "client\tform\trequests\tprompt tokens\tcompletion tokens\tcalls in the client\tcalls on the server\tanswer")
	for _, c := range vendorClients() {
		before, err := d.calls(ctx)
		if err != nil {
			return err
		}
		saw, err := d.asks(ctx, c, model)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		after, err := d.calls(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", c.name, c.form, saw.Requests, saw.Prompt, saw.Completion, saw.Calls, after-before, saw.Answer)
	}
	return table.Flush()
}

// model is the one that is asked.
func (d clientsDemo) model(ctx context.Context) (string, error) {
	resp, err := d.request(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return "", err
	}
	if len(list.Data) == 0 {
		return "", errors.New("no model is configured: set MODEL_NAME or MODEL_FILE, or ask the scripted one")
	}
	return list.Data[0].ID, nil
}

// calls is how many calls of tools the server executed for the user.
func (d clientsDemo) calls(ctx context.Context) (int, error) {
	var usage struct {
		Items []struct {
			ToolCallID string `json:"toolCallId"`
		} `json:"items"`
	}
	err := d.ask(ctx, http.MethodGet, "/v1/credit/usage?limit=200", nil, &usage)
	n := 0
	for _, one := range usage.Items {
		if one.ToolCallID != "" {
			n++
		}
	}
	return n, err
}

// asks runs one client.
func (d clientsDemo) asks(ctx context.Context, c vendorClient, model string) (saw clientSaw, err error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	command := []string{"node", "--no-warnings", filepath.Join(d.programs, c.file), d.vendors}
	if filepath.Ext(c.file) == ".py" {
		command = []string{filepath.Join(d.vendors, "python", "bin", "python"), "-B", filepath.Join(d.programs, c.file)}
	}
	command = append(command, d.url, d.key, model, clientsQuestion)
	run := exec.CommandContext(ctx, command[0], command[1:]...)
	run.Env = append(d.search, "HOME="+d.programs) // and no secret of this process
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil {
		return saw, fmt.Errorf("%w\n%s", err, &stderr)
	}
	return saw, json.Unmarshal(out, &saw)
}

package demos

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/portico-run/portico/dev/demo"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/knowledge"
	"github.com/portico-run/portico/modules/knowledge/ingest"
)

//go:embed mcp.py
var mcpProgram string

//go:embed knowledge.py
var knowledgeProgram string

//go:embed criteria.py
var criteriaProgram string

// HoursCommand are the arguments that make this program the demonstration's MCP
// server.
func HoursCommand() []string { return []string{"demo", "hours"} }

func serverOfTools(ctx context.Context, d toolsDemo) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	spec := server.Spec{Name: "hours", Transport: server.Stdio, Command: program, Args: HoursCommand()}
	if err := d.app.Servers.Operators().Add(ctx, "", spec); err != nil {
		return err
	}
	fmt.Fprint(d.out, "   portico mcp add hours -- portico demo hours\n\n")
	return d.program(ctx, mcpProgram, "hours")
}

func documents(ctx context.Context, d toolsDemo) error {
	if err := d.addHandbook(ctx); err != nil {
		return err
	}
	return d.program(ctx, knowledgeProgram)
}

// addHandbook adds the folder as the command does, from a copy of its own.
func (d toolsDemo) addHandbook(ctx context.Context) (err error) {
	folder, err := os.MkdirTemp("", "portico-demo-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	handbook, err := demo.Handbook()
	if err != nil {
		return err
	}
	folder = filepath.Join(folder, "handbook")
	if err := os.CopyFS(folder, handbook); err != nil {
		return err
	}
	found, err := ingest.Find(folder, d.app.Config.Knowledge.MaxDocument)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	passages := 0
	for _, s := range found.Sources {
		added, err := d.app.Knowledge.Service.Add(ctx, knowledge.Shared(), knowledge.Addition{Collection: "handbook", Source: s})
		if err != nil {
			return err
		}
		passages += added.Document.Passages
	}
	fmt.Fprintf(d.out, "   portico knowledge add dev/demo/handbook --shared --collection handbook\n   added %d documents with %d passages\n\n", len(found.Sources), passages)
	return nil
}

// criteria needs the documents of the step before it.
func criteria(ctx context.Context, d toolsDemo) (err error) {
	page, end, err := servePage(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return d.program(ctx, fmt.Sprintf("PAGE = %q\n", page)+criteriaProgram)
}

// servePage serves the handbook's page about signing in, on this machine.
func servePage(ctx context.Context) (address string, end func() error, err error) {
	handbook, err := demo.Handbook()
	if err != nil {
		return "", nil, err
	}
	page, err := fs.ReadFile(handbook, "auth.html")
	if err != nil {
		return "", nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page) // the reader has gone
	})}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	return "http://" + l.Addr().String() + "/auth", func() error {
		err := s.Close()
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

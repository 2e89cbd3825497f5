package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/sandbox/isolation"
)

// Check is one thing that the doctor looked at.
type Check struct {
	Name string
	OK   bool
	Text string
}

// Doctor looks at everything that the server needs on this machine. It starts
// the sandbox and stops it again, and leaves nothing behind.
func (a *App) Doctor(ctx context.Context) []Check {
	at := a.Config.Server
	checks := []Check{
		{"address", true, fmt.Sprintf("the server listens on %s; links and callers use %s", at.Listen, at.Endpoint)},
		a.checkDatabase(ctx), a.checkObjects(ctx),
	}
	checks = append(checks, a.checkToolsets(ctx)...)
	checks = append(checks, a.checkProcesses(ctx))
	for _, f := range a.checkSandbox(ctx) {
		checks = append(checks, Check{"sandbox: " + f.Check, f.OK, f.Text})
	}
	for _, w := range a.Config.Warnings {
		checks = append(checks, Check{"configuration", true, "warning: " + w})
	}
	return checks
}

func (a *App) checkDatabase(ctx context.Context) Check {
	steps, err := a.DB.Steps(ctx)
	if err != nil {
		return Check{"database", false, err.Error()}
	}
	applied := 0
	for _, s := range steps {
		if s.Applied {
			applied++
		}
	}
	return Check{"database", true, fmt.Sprintf("%s answers, %d of %d migrations applied", a.DB.Dialect(), applied, len(steps))}
}

func (a *App) checkObjects(ctx context.Context) Check {
	const body = "written by portico doctor"
	key := "doctor/" + rand.Text() + ".txt" // others look at the same time
	err := a.Objects.Put(ctx, key, strings.NewReader(body), "text/plain")
	var back []byte
	if err == nil {
		back, err = objectstore.Read(ctx, a.Objects, key, 1<<10)
	}
	if err == nil && string(back) != body {
		err = errors.New("what was written came back changed")
	}
	if err = errors.Join(err, a.Objects.Delete(context.WithoutCancel(ctx), key)); err != nil {
		return Check{"object storage", false, err.Error()}
	}
	return Check{"object storage", true, a.Config.ObjectStorage.Driver + ": written, read and deleted"}
}

// checkProcesses looks whether what the processes of this database keep is where all of
// them find it.
func (a *App) checkProcesses(ctx context.Context) Check {
	const name = "processes"
	if err := a.DB.Ready(ctx); errors.Is(err, database.ErrBehind) {
		return Check{name, true, "none serves yet: migrations are to be applied"}
	}
	live, err := a.Nodes.Live(ctx)
	switch {
	case err != nil:
		return Check{name, false, err.Error()}
	case len(live) > 1 && a.DB.Dialect() == database.SQLite:
		return Check{name, false, fmt.Sprintf("%d serve one SQLite file, which is for one: stop the others, or move to PostgreSQL (DATABASE_URL) and S3 (OBJECT_STORAGE_DRIVER=s3)", len(live))}
	case len(live) > 1 && a.Config.ObjectStorage.Driver == configs.FolderDriver:
		return Check{name, false, fmt.Sprintf("%d serve this database, and files are in a folder of a machine: what one stores, the others do not find; set OBJECT_STORAGE_DRIVER=s3 and S3_BUCKET for all of them", len(live))}
	}
	return Check{name, true, fmt.Sprintf("%d of this database, files are in %s", len(live), a.Config.ObjectStorage.Driver)}
}

// checkToolsets are lines of the doctor about the toolset files.
func (a *App) checkToolsets(ctx context.Context) []Check {
	const name = "toolset files"
	files, err := a.toolsetFiles()
	if err != nil {
		return []Check{{name, false, err.Error()}}
	}
	problems, err := a.ToolsetFiles.Check(ctx, files)
	if err != nil {
		return []Check{{name, false, err.Error()}}
	}
	if len(problems) == 0 {
		return []Check{{name, true, fmt.Sprintf("%d valid", len(files))}}
	}
	var checks []Check
	for _, p := range problems {
		checks = append(checks, Check{name, false, p.Error()})
	}
	return checks
}

// machine looks at what the sandbox needs on this machine.
func (a *App) machine(ctx context.Context) []isolation.Finding {
	if a.claims != nil {
		return a.checkClaims(ctx)
	}
	if a.Sandboxes != nil {
		return a.checkSandboxes(ctx)
	}
	tool := isolation.Tool{Name: "bubblewrap", Program: "bwrap", Get: "apt-get install bubblewrap"}
	if a.Config.Sandbox.Driver == configs.GVisor {
		tool = isolation.Tool{Name: "gVisor", Program: "runsc", Get: "tools/runsc.sh builds it; set SANDBOX_RUNSC to the path it prints"}
		if a.Config.Sandbox.Runsc != "" {
			tool.Program = a.Config.Sandbox.Runsc
		}
	}
	return isolation.Machine(tool, a.sandboxConfig().Root)
}

// checkClaims asks the cluster whether it would make a claim. A node is taken by nobody.
func (a *App) checkClaims(ctx context.Context) []isolation.Finding {
	c := a.Config.Sandbox.Claims
	if err := a.claims.Check(ctx); err != nil {
		return []isolation.Finding{{Check: "claims", Text: err.Error()}}
	}
	return []isolation.Finding{{Check: "claims", OK: true, Text: fmt.Sprintf("Kubernetes answers about claims of the pool %s in the namespace %s", c.Pool, c.Namespace)}}
}

// checkSandboxes asks the sandbox nodes. One that answers is enough.
func (a *App) checkSandboxes(ctx context.Context) []isolation.Finding {
	var findings []isolation.Finding
	answer := false
	for _, n := range a.Sandboxes.List(ctx) {
		if n.Err != nil {
			findings = append(findings, isolation.Finding{Check: "node " + n.Address, OK: true, Text: "warning: it does not answer: " + n.Err.Error()})
			continue
		}
		answer = true
		findings = append(findings, isolation.Finding{Check: "node " + n.Address, OK: true, Text: fmt.Sprintf("answers, and runs %d of %d programs", n.Status.Running, n.Status.Capacity)})
	}
	if !answer {
		findings = append(findings, isolation.Finding{Check: "nodes", Text: "none answers: start portico serve --role=sandbox, and name its address in SANDBOX_NODES"})
	}
	return findings
}

// checkSandbox looks at the machine and then, if nothing is missing, from
// inside a sandbox.
func (a *App) checkSandbox(ctx context.Context) []isolation.Finding {
	findings := a.machine(ctx)
	for _, f := range findings {
		if !f.OK {
			return append(findings, isolation.Finding{Check: "execution", Text: "not tried: see above"})
		}
	}
	if err := a.Engine.Start(ctx); err != nil {
		return append(findings, isolation.Finding{Check: "execution", Text: err.Error()})
	}
	_, inside := isolation.Probe(ctx, a.Engine)
	if err := a.Engine.Stop(ctx); err != nil {
		inside = append(inside, isolation.Finding{Check: "removal", Text: err.Error()})
	}
	return append(findings, inside...)
}

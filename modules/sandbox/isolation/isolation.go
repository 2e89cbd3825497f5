// Package isolation finds out what sandboxes really keep apart on a machine,
// layer by layer, by looking from the inside.
package isolation

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/portico-run/portico/modules/sandbox"
)

// Level says how much stands between a program and the host.
type Level string

// The levels, each with everything of the one before.
const (
	// None is a machine that runs no programs, or does not keep them apart.
	None Level = "none"
	// Namespaces is a program with namespaces, an identity, file systems and
	// system-call filters of its own, on the host's kernel.
	Namespaces Level = "namespaces"
	// Kernel is a program on a kernel of its own.
	Kernel Level = "kernel"
)

// AtLeast reports whether l is the wanted level or one above it.
func (l Level) AtLeast(want Level) bool {
	order := map[Level]int{None: 0, Namespaces: 1, Kernel: 2}
	return order[l] >= order[want]
}

// Finding is what one check found.
type Finding struct {
	Check string
	OK    bool
	// Text says what holds, or what to do about what does not.
	Text string
}

// Runner runs jobs; an engine or anything like it.
type Runner interface {
	Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error)
}

//go:embed probe.py
var probe string

// report is what the probe prints.
type report struct {
	UID             int               `json:"uid"`
	Capabilities    bool              `json:"capabilities"`
	NoNewPrivileges bool              `json:"noNewPrivileges"`
	Filters         int               `json:"filters"`
	Namespaces      map[string]string `json:"namespaces"`
	Interfaces      []string          `json:"interfaces"`
	Processes       int               `json:"processes"`
	Kernel          string            `json:"kernel"`
	ReadOnly        bool              `json:"readOnly"`
	Hidden          bool              `json:"hidden"`
	Families        []int             `json:"families"`
	Work            space             `json:"/mnt/data"`
	Temporary       space             `json:"/tmp"`
}

type space struct{ Bytes, Files int64 }

// Probe runs a program that looks around, and judges what it saw. The level is
// None unless every layer holds.
func Probe(ctx context.Context, r Runner) (Level, []Finding) {
	begin := time.Now()
	result, err := r.Run(ctx, sandbox.Job{Code: probe, Timeout: time.Minute})
	if err == nil && result.Status != sandbox.Completed {
		err = fmt.Errorf("a program ended with %s: %s", result.Status, strings.TrimSpace(result.Stderr))
	}
	var seen report
	if err == nil {
		err = json.Unmarshal([]byte(result.Stdout), &seen)
	}
	if err != nil {
		return None, []Finding{{"execution", false, fmt.Sprintf(
			"%v; in a container, give it seccomp=unconfined and systempaths=unconfined and run it as a user other than root", cause(err))}}
	}
	findings := append([]Finding{{"execution", true, "a program ran in " + time.Since(begin).Round(time.Millisecond).String()}}, seen.layers()...)
	level := Namespaces
	if strings.Contains(seen.Kernel, "gVisor") {
		level = Kernel
	}
	for _, f := range findings {
		if !f.OK {
			level = None
		}
	}
	return level, append(findings, Finding{"isolation", level != None, "level " + string(level)})
}

// cause is the private cause of a public error, which only operators see.
func cause(err error) error {
	if inner, ok := err.(interface{ Unwrap() error }); ok && inner.Unwrap() != nil {
		return inner.Unwrap()
	}
	return err
}

// layers judges what the probe saw.
func (r report) layers() []Finding {
	shared := []string{}
	for name, inside := range r.Namespaces {
		if outside, err := os.Readlink("/proc/self/ns/" + name); err == nil && outside == inside {
			shared = append(shared, name)
		}
	}
	own := os.Geteuid() == 0
	identity := "a user of the server's for all; run the server as root to give sandboxes users of their own"
	if own {
		identity = "users that nothing else on the machine has"
	}
	return []Finding{
		{"identity", r.UID != 0, identity},
		{"capabilities", !r.Capabilities && r.NoNewPrivileges, text(!r.Capabilities && r.NoNewPrivileges, "none, and none can be gained", "some are left, or can be gained")},
		{"namespaces", len(shared) == 0, text(len(shared) == 0, "own user, mount, process, network, IPC and host-name namespaces", "shared with the host: "+strings.Join(shared, ", "))},
		{"processes", r.Processes <= 4, fmt.Sprintf("a program sees %d", r.Processes)},
		{"network", len(r.Interfaces) <= 1 && len(r.Families) == 0, text(len(r.Interfaces) <= 1 && len(r.Families) == 0,
			"a loopback of its own and nothing else", fmt.Sprintf("interfaces %v, socket families %v", r.Interfaces, r.Families))},
		{"file system", r.ReadOnly && r.Hidden, text(r.ReadOnly && r.Hidden, "read-only, without the host's folders", "parts can be written, or are the host's")},
		{"system-call filters", r.Filters > 0 || r.sentry(), text(r.sentry(), "a kernel of its own answers", fmt.Sprintf("%d filters", r.Filters))},
		{"file limits", r.Work.Bytes > 0 && r.Temporary.Bytes > 0, fmt.Sprintf("/mnt/data: %d MiB and %d files; /tmp: %d MiB and %d files",
			r.Work.Bytes>>20, r.Work.Files, r.Temporary.Bytes>>20, r.Temporary.Files)},
	}
}

func (r report) sentry() bool { return strings.Contains(r.Kernel, "gVisor") }

func text(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

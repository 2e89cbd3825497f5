package bubblewrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// Finding is what one check of the machine found.
type Finding struct {
	Check string
	OK    bool
	// Text says what holds, or what to do about what does not.
	Text string
}

// Check looks at what the driver needs, layer by layer, and ends with running
// a program. What is found depends on the machine, not on the error: there is
// none.
func Check(ctx context.Context, c Config) []Finding {
	c = c.withDefaults()
	findings := []Finding{checkProgram(c), checkRoot(c), checkNamespaces(), checkSeccomp(), checkUser()}
	for _, f := range findings {
		if !f.OK {
			return append(findings, Finding{"execution", false, "not tried: see above"})
		}
	}
	return append(findings, checkExecution(ctx, c))
}

func checkProgram(c Config) Finding {
	path, err := exec.LookPath(c.Bwrap)
	if err != nil {
		return Finding{"bubblewrap", false, fmt.Sprintf("%s is not installed: apt-get install bubblewrap", c.Bwrap)}
	}
	return Finding{"bubblewrap", true, path}
}

func checkRoot(c Config) Finding {
	python := filepath.Join(c.Root, "usr/bin/python3")
	if _, err := os.Stat(python); c.Root == "" || err != nil {
		return Finding{"python root", false, fmt.Sprintf("there is no Python in %q: tools/sandbox-root.sh builds it", c.Root)}
	}
	return Finding{"python root", true, c.Root}
}

// checkNamespaces reads the switches that forbid user namespaces.
func checkNamespaces() Finding {
	for _, s := range []struct{ file, off, text string }{
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		value, err := os.ReadFile(s.file)
		if err == nil && strings.TrimSpace(string(value)) == s.off {
			return Finding{"user namespaces", false, "switched off on this machine: " + s.text}
		}
	}
	return Finding{"user namespaces", true, "allowed by the kernel"}
}

func checkSeccomp() Finding {
	if err := unix.Prctl(unix.PR_GET_SECCOMP, 0, 0, 0, 0); errors.Is(err, unix.EINVAL) {
		return Finding{"system-call filters", false, "this kernel was built without seccomp"}
	}
	filters, err := guest.Filters()
	if err != nil {
		return Finding{"system-call filters", false, err.Error()}
	}
	return Finding{"system-call filters", true, fmt.Sprintf("%d filters", len(filters))}
}

func checkUser() Finding {
	if os.Geteuid() == 0 {
		return Finding{"user", true, fmt.Sprintf("each sandbox is a user of its own, from %d on", guest.FirstUID)}
	}
	return Finding{"user", true, "all sandboxes are the server's user; run the server as root to give each its own"}
}

// checkExecution runs a program, because namespaces that the kernel allows may
// still be forbidden by what the server itself runs in.
func checkExecution(ctx context.Context, c Config) Finding {
	fail := func(err error) Finding {
		return Finding{"execution", false, fmt.Sprintf(
			"%v; in a container, give it seccomp=unconfined and systempaths=unconfined and run it as a user other than root", err)}
	}
	d, err := New(c)
	if err != nil {
		return fail(err)
	}
	if err := d.Open(ctx); err != nil {
		return fail(err)
	}
	result, err := tryOut(ctx, d)
	if err := errors.Join(err, d.Close()); err != nil {
		return fail(err)
	}
	if result.Status != sandbox.Completed {
		return fail(fmt.Errorf("a program ended with %s: %s", result.Status, strings.TrimSpace(result.Stderr)))
	}
	return Finding{"execution", true, "a program ran in " + result.Duration.Round(time.Millisecond).String()}
}

func tryOut(ctx context.Context, d *Driver) (sandbox.Result, error) {
	c, err := d.Start(ctx)
	if err != nil {
		return sandbox.Result{}, err
	}
	r, err := c.Run(ctx, sandbox.Job{Code: "print('ok')", Timeout: 10 * time.Second})
	return r, errors.Join(err, c.Close())
}

package isolation

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/modules/sandbox/guest"
)

// Tool is the program that a driver isolates with.
type Tool struct {
	Name    string
	Program string // searched in PATH, or a path
	Get     string // how to install it
}

// Machine looks at what sandboxes need, without starting any. root is the file
// system that tools/sandbox-root.sh built.
func Machine(t Tool, root string) []Finding {
	return []Finding{t.find(), python(root), namespaces(), filters(), groups()}
}

// groups tells how memory and processes of a whole sandbox are bounded; both
// ways hold.
func groups() Finding {
	if guest.OpenGroups() != nil {
		return Finding{"control groups", true, "the kernel bounds the memory and the processes of each sandbox"}
	}
	return Finding{"control groups", true, "none can be made here: the memory of a sandbox is looked at ten times a second"}
}

func (t Tool) find() Finding {
	path, err := exec.LookPath(t.Program)
	if err != nil {
		return Finding{t.Name, false, fmt.Sprintf("%s is not installed: %s", t.Program, t.Get)}
	}
	return Finding{t.Name, true, path}
}

func python(root string) Finding {
	program := filepath.Join(root, "usr/bin/python3")
	if _, err := os.Stat(program); root == "" || err != nil {
		return Finding{"python root", false, fmt.Sprintf("there is no Python in %q: tools/sandbox-root.sh builds it", root)}
	}
	return Finding{"python root", true, root}
}

// namespaces reads the switches that forbid user namespaces.
func namespaces() Finding {
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

func filters() Finding {
	if err := unix.Prctl(unix.PR_GET_SECCOMP, 0, 0, 0, 0); errors.Is(err, unix.EINVAL) {
		return Finding{"system-call filters", false, "this kernel was built without seccomp"}
	}
	return Finding{"kernel", true, "knows system-call filters"}
}

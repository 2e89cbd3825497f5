package gvisor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// supervisorRights are what process 1 needs, inside, to make the program's folders
// and to hold a program of another user. The program has none.
func supervisorRights() []string {
	return []string{"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_CHOWN", "CAP_DAC_READ_SEARCH", "CAP_SYS_ADMIN"}
}

// bundle describes a sandbox to runsc. A saved one comes back with another
// slot, and is otherwise the same.
func (d *Driver) bundle(slot *guest.Slot, saved bool) specs.Spec {
	bind := func(source, target string) specs.Mount {
		return specs.Mount{Destination: target, Type: "bind", Source: source, Options: []string{"bind", "ro", "nosuid", "nodev"}}
	}
	arguments := []string{"/usr/bin/python3", "-I", guest.SupervisorEntry, strings.Join(d.host.Preload, ",")}
	if saved {
		arguments = append(arguments, "saved")
	}
	environment := []string{"MALLOC_ARENA_MAX=2"} // each arena of the C library reserves 64 MiB
	for name, value := range guest.Environment() {
		environment = append(environment, name+"="+value)
	}
	slices.Sort(environment) // the image is known by its description
	rights := supervisorRights()
	return specs.Spec{
		Version: specs.Version,
		Root:    &specs.Root{Path: d.host.Root, Readonly: true},
		Process: &specs.Process{
			Args: arguments, Env: environment, Cwd: "/", NoNewPrivileges: true,
			Capabilities: &specs.LinuxCapabilities{Bounding: rights, Effective: rights, Permitted: rights},
		},
		Hostname: "sandbox",
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			// gVisor would mount what its kernel shows of itself.
			bind(filepath.Join(d.host.Root, "sys"), "/sys"),
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs"},
			// Until the supervisor mounts what is limited: runsc passes on no limit of
			// the number of files.
			{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs"},
			{Destination: "/run", Type: "tmpfs", Source: "tmpfs", Options: []string{"size=65536", "mode=755"}},
			bind(d.host.Runtime, guest.RuntimeDir),
			bind(slot.Run(), guest.SocketDir),
			bind(slot.Tools(), sandbox.ToolsDir),
		},
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace},
			{Type: specs.NetworkNamespace},
			{Type: specs.IPCNamespace},
			{Type: specs.UTSNamespace},
			{Type: specs.MountNamespace},
		}},
	}
}

// writeBundle puts the description where runsc reads it.
func writeBundle(dir string, spec specs.Spec) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
}

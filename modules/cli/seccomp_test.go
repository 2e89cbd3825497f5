package cli_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// profile is a file of system calls as container runtimes read it.
type profile struct {
	DefaultAction string   `json:"defaultAction"`
	DefaultErrno  int      `json:"defaultErrnoRet"`
	Architectures []string `json:"architectures"`
	Syscalls      []struct {
		Comment string   `json:"comment"`
		Names   []string `json:"names"`
		Action  string   `json:"action"`
		Errno   uint32   `json:"errnoRet"`
		Args    []struct {
			Index uint32 `json:"index"`
			Value uint64 `json:"value"`
			Op    string `json:"op"`
		} `json:"args"`
	} `json:"syscalls"`
}

// shipped are the filters of the profile for pods on Kubernetes that run programs.
func shipped(t *testing.T) (filters [][]byte) {
	t.Helper()
	text, err := os.Open("../../configs/kubernetes/seccomp/portico-sandbox.json")
	require.NoError(t, err)
	defer func() { require.NoError(t, text.Close()) }()
	var p profile
	d := json.NewDecoder(text)
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&p))
	require.Equal(t, "SCMP_ACT_ERRNO 1", fmt.Sprint(p.DefaultAction, " ", p.DefaultErrno)) // what the library refuses with
	machine, err := arch.GetInfo("")
	require.NoError(t, err)
	operations := map[string]seccomp.Operation{"SCMP_CMP_EQ": seccomp.Equal, "SCMP_CMP_LT": seccomp.LessThan}
	allowed := seccomp.SyscallGroup{Action: seccomp.ActionAllow}
	policies := []seccomp.Policy{}
	for _, s := range p.Syscalls {
		for _, name := range s.Names {
			if _, known := machine.SyscallNames[name]; !known {
				continue // one of the other architecture
			}
			if s.Action == "SCMP_ACT_ERRNO" {
				group := seccomp.SyscallGroup{Action: seccomp.ActionErrno | seccomp.Action(s.Errno), Names: []string{name}}
				policies = append(policies, seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{group}})
				allowed.Names = append(allowed.Names, name) // the other filter refuses it
				continue
			}
			require.Equal(t, "SCMP_ACT_ALLOW", s.Action)
			if len(s.Args) == 0 {
				allowed.Names = append(allowed.Names, name)
				continue
			}
			c := seccomp.NameWithConditions{Name: name}
			for _, a := range s.Args {
				require.Contains(t, operations, a.Op)
				c.Conditions = append(c.Conditions, seccomp.Condition{Argument: a.Index, Operation: operations[a.Op], Value: a.Value})
			}
			allowed.NamesWithCondtions = append(allowed.NamesWithCondtions, c)
		}
	}
	policies = append(policies, seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{allowed}})
	for _, policy := range policies {
		program, err := policy.Assemble()
		require.NoError(t, err)
		raw, err := bpf.Assemble(program)
		require.NoError(t, err)
		var filter []byte
		for _, i := range raw {
			filter = binary.NativeEndian.AppendUint16(filter, i.Op)
			filter = append(filter, i.Jt, i.Jf)
			filter = binary.NativeEndian.AppendUint32(filter, i.K)
		}
		filters = append(filters, filter)
	}
	return filters
}

// underProfile runs a program under the profile.
func underProfile(t *testing.T, env []string, program ...string) (string, error) {
	t.Helper()
	arguments := []string{"--dev-bind", "/", "/"}
	var files []*os.File
	for n, filter := range shipped(t) {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		_, err = write.Write(filter)
		require.NoError(t, err)
		require.NoError(t, write.Close())
		files = append(files, read)
		arguments = append(arguments, "--add-seccomp-fd", strconv.Itoa(3+n))
	}
	command := exec.CommandContext(t.Context(), "bwrap", append(append(arguments, "--"), program...)...)
	command.ExtraFiles, command.Env = files, append(env, "PATH="+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	for _, f := range files {
		require.NoError(t, f.Close())
	}
	return string(out), err
}

// The seccomp profile for Kubernetes lets programs be isolated as they are without one,
// and refuses what neither server nor sandbox needs.
func TestTheProfileOfPodsThatRunPrograms(t *testing.T) {
	testenv.Slow(t, "a sandbox below another")
	t.Parallel()
	at := guest.DefaultRoot(apptest.Values(apptest.Environ(t, "sqlite:none")))
	testenv.Sandbox(t, at)
	env := apptest.Environ(t, databasetest.URL(t, database.SQLite), "SANDBOX_ROOT="+at)
	out, err := underProfile(t, append(env, asProgram+"=1"), os.Args[0], "doctor")
	require.NoError(t, err, out)
	require.Regexp(t, `ok +sandbox: isolation +level namespaces`, out)
	refused := func(call int) string {
		out, err := underProfile(t, nil, "/usr/bin/python3", "-c", `import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(int(sys.argv[1]), 0, 0, 0), ctypes.get_errno())`, strconv.Itoa(call))
		require.NoError(t, err, out)
		return out
	}
	require.Equal(t, "-1 1\n", refused(unix.SYS_BPF))
	require.Equal(t, "-1 1\n", refused(unix.SYS_KEYCTL))
	require.Equal(t, "-1 1\n", refused(unix.SYS_IO_URING_SETUP))
	require.Equal(t, "-1 1\n", refused(unix.SYS_PTRACE))
	require.Equal(t, "-1 38\n", refused(unix.SYS_CLONE3))
}

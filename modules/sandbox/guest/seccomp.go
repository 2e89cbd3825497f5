package guest

import (
	"encoding/binary"
	"fmt"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// rule is one seccomp filter. The library evaluates only the first group of a
// policy, so each rule becomes a filter of its own, and the kernel takes the
// strictest answer of all of them.
type rule struct {
	errno      unix.Errno
	names      []string
	conditions []seccomp.NameWithConditions
}

// denied are the calls that a program has no use for: those that change
// mounts, namespaces, other processes, the kernel or the clock, and those with
// a history of holes. Calls that one architecture lacks are left out there.
func denied() []string {
	return []string{
		"mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount",
		"fspick", "mount_setattr", "listmount", "statmount", "quotactl", "quotactl_fd", "swapon", "swapoff",
		"unshare", "setns", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise",
		"process_mrelease", "pidfd_getfd", "kcmp", "kexec_load", "kexec_file_load", "reboot",
		"bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key",
		"init_module", "finit_module", "delete_module", "create_module", "query_module", "get_kernel_syms",
		"open_by_handle_at", "name_to_handle_at", "lookup_dcookie", "fanotify_init",
		"io_uring_setup", "io_uring_enter", "io_uring_register",
		"iopl", "ioperm", "modify_ldt", "acct", "syslog", "vhangup", "uselib", "personality", "nfsservctl", "_sysctl",
		"settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname",
		"mbind", "move_pages", "migrate_pages", "set_mempolicy", "set_mempolicy_home_node",
		// Memory that belongs to no process escapes the limits of processes.
		"memfd_create", "memfd_secret", "shmget", "shmat", "shmctl", "semget", "msgget", "mq_open",
	}
}

// namespaces are the flags of clone that make a namespace.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// rules are the filters every program runs under. The fork-server's copies
// have all but the last from it, and cannot do without that one's calls before.
func rules() []rule {
	family := func(call string) seccomp.NameWithConditions {
		c := seccomp.NameWithConditions{Name: call}
		for _, f := range []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} {
			c.Conditions = append(c.Conditions, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: f})
		}
		return c
	}
	return []rule{
		{errno: unix.EPERM, conditions: []seccomp.NameWithConditions{{Name: "clone", Conditions: seccomp.ArgumentConditions{
			{Argument: 0, Operation: seccomp.BitsSet, Value: namespaces},
		}}}},
		// A filter cannot look behind the pointer that clone3 takes; with
		// ENOSYS the C library falls back to clone.
		{errno: unix.ENOSYS, names: []string{"clone3"}},
		// AF_VSOCK passes every network namespace and reaches the hypervisor
		// of a virtual machine. The rest is kept away with it.
		{errno: unix.EAFNOSUPPORT, conditions: []seccomp.NameWithConditions{family("socket"), family("socketpair")}},
		{errno: unix.EPERM, names: denied()},
	}
}

// filters compiles the rules, and the guard before them, for the architecture
// this program was built for. Each element is what bwrap reads from one
// descriptor.
func filters() ([][]byte, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("system-call filters: %w", err)
	}
	out := make([][]byte, 0, len(rules())+1)
	raw, err := encode(guard(machine))
	if err != nil {
		return nil, err
	}
	out = append(out, raw)
	for _, r := range rules() {
		group := seccomp.SyscallGroup{
			Action:             seccomp.ActionErrno | seccomp.Action(r.errno),
			NamesWithCondtions: r.conditions,
		}
		for _, name := range r.names {
			if _, known := machine.SyscallNames[name]; known {
				group.Names = append(group.Names, name)
			}
		}
		policy := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{group}}
		program, err := policy.Assemble()
		if err != nil {
			return nil, fmt.Errorf("system-call filters: %w", err)
		}
		if raw, err = encode(program); err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return out, nil
}

// guard kills programs that make calls of another architecture, such as those
// of 32-bit x86, for which the numbers in the rules mean other calls and which
// the library lets pass. Calls newer than the library, and those of x32, do
// not exist.
func guard(machine *arch.Info) []bpf.Instruction {
	newest := 0
	for _, number := range machine.SyscallNames {
		newest = max(newest, number)
	}
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4}, // seccomp_data.arch
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(machine.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionKillProcess)},
		bpf.LoadAbsolute{Off: 0, Size: 4}, // seccomp_data.nr
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: uint32(newest), SkipFalse: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(unix.ENOSYS)},
		bpf.RetConstant{Val: uint32(seccomp.ActionAllow)},
	}
}

// encode writes a program as an array of struct sock_filter.
func encode(program []bpf.Instruction) ([]byte, error) {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("system-call filters: %w", err)
	}
	out := make([]byte, 0, 8*len(raw))
	for _, i := range raw {
		out = binary.NativeEndian.AppendUint16(out, i.Op)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out, nil
}

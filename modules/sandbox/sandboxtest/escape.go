package sandboxtest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

func (s Suite) testIdentity(t *testing.T) {
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{Env: map[string]string{"OWN_KERNEL": strconv.FormatBool(s.OwnKernel)}, Code: `
import os
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Groups"):
    print(name, status[name].strip())
print(os.getuid() != 0, os.getgid() != 0, os.getgroups())
for change in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]), lambda: os.chroot("/tmp")):
    try:
        change(); print("changed")
    except OSError:
        pass
if os.environ["OWN_KERNEL"] == "false":
    # A kernel of the sandbox's own has users of its own, and one rank for all.
    maps = open("/proc/self/uid_map").read().split()
    if maps[0] == "0" or maps[2] != "1": print("mapped", maps)
    try:
        os.nice(-5); print("preferred")
    except OSError: pass`})
	require.Equal(t, `CapInh 0000000000000000
CapPrm 0000000000000000
CapEff 0000000000000000
CapBnd 0000000000000000
CapAmb 0000000000000000
NoNewPrivs 1
Seccomp 2
Groups
True True []
`, strings.ReplaceAll(r.Stdout, "Groups \n", "Groups\n"), r.Stderr)
}

// Every rule of the filters bites, not only the first group.
func (s Suite) testSystemCalls(t *testing.T) {
	r := s.program(t, `
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
NR = dict(mount=165, umount2=166, pivot_root=155, chroot=161, ptrace=101, process_vm_readv=310, bpf=321, perf_event_open=298,
          keyctl=250, add_key=248, userfaultfd=323, unshare=272, setns=308, init_module=175, finit_module=313, kexec_load=246,
          open_by_handle_at=304, name_to_handle_at=303, io_uring_setup=425, swapon=167, reboot=169, settimeofday=164, sethostname=170,
          acct=163, personality=135, memfd_create=319, shmget=29, msgget=68, semget=64, mq_open=240, fsopen=430, open_tree=428,
          move_mount=429, mount_setattr=442, pidfd_getfd=438, kcmp=312, quotactl=179, syslog=103, iopl=172) if os.uname().machine == "x86_64" else \
     dict(mount=40, umount2=39, pivot_root=41, chroot=51, ptrace=117, process_vm_readv=270, bpf=280, perf_event_open=241,
          keyctl=219, add_key=217, userfaultfd=282, unshare=97, setns=268, init_module=105, finit_module=273, kexec_load=104,
          open_by_handle_at=265, name_to_handle_at=264, io_uring_setup=425, swapon=224, reboot=142, settimeofday=170, sethostname=161,
          acct=89, personality=92, memfd_create=279, shmget=194, msgget=186, semget=190, mq_open=180, fsopen=430, open_tree=428,
          move_mount=429, mount_setattr=442, pidfd_getfd=438, kcmp=272, quotactl=60, syslog=116)
for name, nr in NR.items():
    ctypes.set_errno(0)
    result = libc.syscall(nr, 0, 0, 0, 0, 0, 0)
    if result != -1 or ctypes.get_errno() != errno.EPERM:
        print(name, result, errno.errorcode.get(ctypes.get_errno()))
clone = 56 if os.uname().machine == "x86_64" else 220
for flag in (0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x08000000, 0x04000000, 0x02000000):
    ctypes.set_errno(0)
    result = libc.syscall(clone, flag | 17, 0, 0, 0, 0)
    if result == 0: os._exit(9)
    if result != -1 or ctypes.get_errno() != errno.EPERM:
        print("clone", hex(flag), result, ctypes.get_errno())
ctypes.set_errno(0)
if libc.syscall(435, 0, 0) != -1 or ctypes.get_errno() != errno.ENOSYS:
    print("clone3", ctypes.get_errno())
ctypes.set_errno(0)
if libc.syscall(10000) != -1 or ctypes.get_errno() != errno.ENOSYS:
    print("unknown", ctypes.get_errno())
print("done")`)
	require.Equal(t, "done\n", r.Stdout, r.Stderr)
}

func (s Suite) testSocketFamilies(t *testing.T) {
	r := s.program(t, `
import errno, socket
for family in range(0, 50):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            socket.socket(family, kind).close()
            if family not in (1, 2, 10): print("opened", family, kind)
        except OSError as e:
            if family not in (1, 2, 10) and e.errno != errno.EAFNOSUPPORT: print(family, kind, e)
print("done")`)
	require.Equal(t, "done\n", r.Stdout, r.Stderr)
}

func (s Suite) testNetwork(t *testing.T) {
	address, reached := listen(t)
	host, port, _ := strings.Cut(address, ":")
	r := s.program(t, fmt.Sprintf(`
import socket
for target in (("%s", %s), ("1.1.1.1", 53), ("169.254.169.254", 80), ("::1", %s), ("10.0.0.1", 80)):
    try:
        socket.create_connection(target, timeout=2).close(); print("connected", target)
    except OSError: pass
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("8.8.8.8", 53)); print("sent")
except OSError: pass
try:
    socket.getaddrinfo("example.com", 80); print("resolved")
except OSError: pass
print([line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]])
# An abstract socket of the host is in another network namespace.
try:
    s = socket.socket(socket.AF_UNIX); s.connect("\0portico-test"); print("abstract")
except OSError: pass`, host, port, port))
	require.Equal(t, "['lo']\n", r.Stdout, r.Stderr)
	require.False(t, reached.Load())
}

func (s Suite) testHostFiles(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("top secret"), 0o644))
	wd, err := os.Getwd()
	require.NoError(t, err)
	r := s.program(t, fmt.Sprintf(`
import os
for path in (%q, %q, "/root", "/home", "/etc/shadow", "/var", "/sys/kernel", "/sys/class", "/boot", "/usr/bin/apt-get", "/usr/bin/perl", "/usr/bin/mount", "/usr/bin/su", "/proc/1/root%s"):
    if os.path.exists(path): print("exists", path)
os.symlink(%q, "link")
try:
    open("link"); print("followed")
except OSError: pass
for path in ("/proc/1/environ", "/proc/1/cwd", "/proc/kcore", "/proc/sysrq-trigger", "/proc/1/mem"):
    try:
        print("read", path, open(path, "rb").read(10))
    except OSError: pass
for word in (%q, "portico-sandbox-", "api_key"):
    if word in open("/proc/1/cmdline").read(): print("seen", word)
print(sorted(os.listdir("/etc")))`, secret, wd, secret, secret, filepath.Dir(secret)))
	require.NotContains(t, r.Stdout, "exists")
	require.NotContains(t, r.Stdout, "followed")
	require.NotContains(t, r.Stdout, "seen")
	require.NotContains(t, r.Stdout, "PORTICO")
	require.Contains(t, r.Stdout, "passwd")
}

func (s Suite) testHostProcesses(t *testing.T) {
	r := s.program(t, fmt.Sprintf(`
import os, signal
print(sorted(int(p) for p in os.listdir("/proc") if p.isdigit()))
for pid in (%d, %d):
    try:
        os.kill(pid, 0); print("reached", pid)
    except OSError: pass
print(os.uname().nodename)`, os.Getpid(), os.Getppid()))
	require.Equal(t, "[1, 2]\nsandbox\n", r.Stdout, r.Stderr)
}

// Two programs at once do not see each other's sockets, files or processes.
func (s Suite) testOtherExecutions(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	gateway := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
	}
	waiting, release := make(chan struct{}), make(chan struct{})
	done := make(chan sandbox.Result, 1)
	victim, err := d.Start(t.Context())
	require.NoError(t, err)
	go func() {
		r, err := victim.Run(t.Context(), sandbox.Job{
			Code: client + "open('/tmp/victim-secret','w').write('x')\nopen('victim-secret','w').write('x')\nprint(call('/wait'))", Timeout: time.Minute,
			Gateway: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				close(waiting)
				<-release
				fmt.Fprint(w, "victim")
			}),
		})
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	<-waiting
	r := run(t, d, sandbox.Job{Gateway: gateway("attacker"), Code: client + `
import os
print(call("/x"))
found = []
for folder, dirs, files in os.walk("/"):
    dirs[:] = [d for d in dirs if os.path.join(folder, d) not in ("/proc", "/usr", "/sys")]
    found += [os.path.join(folder, f) for f in files if "victim" in f or f.endswith(".sock")]
print(found, len([p for p in os.listdir("/proc") if p.isdigit()]))`})
	close(release)
	require.Equal(t, "(200, 'attacker')\n['/run/portico/tool.sock'] 2\n", r.Stdout, r.Stderr)
	require.Equal(t, "(200, 'victim')\n", (<-done).Stdout)
	require.NoError(t, victim.Close())
}

// Nothing that the server has open is open in the sandbox.
func (s Suite) testDescriptors(t *testing.T) {
	r := s.program(t, `
import os
extra = []
for pid in ("self", "1"):
    try:
        for fd in os.listdir("/proc/%s/fd" % pid):
            target = os.readlink("/proc/%s/fd/%s" % (pid, fd))
            if pid == "self" and int(fd) > 2 and "/proc/" not in target: extra.append(target)
            if pid == "1" and ("/" == target[0] and not target.startswith("/dev/null")): extra.append(target)
    except OSError: pass
print(extra)`)
	require.Equal(t, "[]\n", r.Stdout, r.Stderr)
}

func (s Suite) testDevices(t *testing.T) {
	r := s.program(t, `
import os, stat
for mode, dev in ((stat.S_IFBLK, os.makedev(8, 0)), (stat.S_IFCHR, os.makedev(1, 1))):
    try: os.mknod("/tmp/device", mode | 0o666, dev); print("made a device")
    except OSError: pass
print(sorted(os.listdir("/dev")))
open("sparse", "wb").truncate(1 << 20)
for name in ("/dev/kmsg", "/dev/mem", "/dev/sda", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/vsock"):
    if os.path.exists(name): print("exists", name)`)
	require.NotContains(t, r.Stdout, "made a device")
	require.NotContains(t, r.Stdout, "exists")
	require.Contains(t, r.Stdout, "urandom")
}

// Outputs are files of the program, whatever their names and kinds claim.
func (s Suite) testHostileOutputs(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("top secret"), 0o644))
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{
		Collect: sandbox.Collect{MaxFiles: 50, MaxBytes: 1 << 20},
		Code: fmt.Sprintf(`
import os, socket
os.symlink(%q, "link"); os.symlink("/etc/passwd", "passwd"); os.symlink("/", "root"); os.symlink("..", "up")
os.mkfifo("fifo")
s = socket.socket(socket.AF_UNIX); s.bind("socket")
open("sparse", "wb").truncate(60 << 20)
open(b"bad\xffname", "w").close(); open("line\nbreak", "w").close(); open("back\\slash", "w").close()
open("good name ä.txt", "w").write("fine")
os.mkdir("locked"); open("locked/in.txt", "w").write("in"); os.chmod("locked", 0)
open("unreadable", "w").write("u"); os.chmod("unreadable", 0)
os.makedirs("/".join("d" * 30)); open("/".join("d" * 30) + "/deep", "w").write("x")
for n in range(1500): os.mkdir("e" * 200); os.chdir("e" * 200)
`, secret),
	})
	require.Equal(t, sandbox.Completed, r.Status, r.Stderr)
	require.GreaterOrEqual(t, r.OutputsDropped, 9)
	for _, f := range r.Outputs {
		require.NotContains(t, string(f.Content), "top secret")
		require.NotContains(t, string(f.Content), "sandbox:")
		require.Contains(t, []string{"good name ä.txt", "locked/in.txt", "unreadable"}, f.Path)
	}
	require.Contains(t, r.Outputs, sandbox.File{Path: "good name ä.txt", Content: []byte("fine")})
}

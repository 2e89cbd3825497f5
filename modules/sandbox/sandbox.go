// Package sandbox runs code that nobody trusts: each job in an interpreter of
// its own, isolated by a driver, ready before it is needed.
package sandbox

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/errs"
)

// Paths that programs see, the same under every driver.
const (
	// ToolSocket is the Unix socket that serves Job.Gateway, and nobody else.
	ToolSocket = "/run/portico/tool.sock"
	// ToolsDir holds Job.Files and is importable as the package refly_tools.
	ToolsDir = "/refly_tools"
	// LoopbackPort is the TCP port of 127.0.0.1, inside, that serves the same for
	// clients of plain HTTP; LoopbackURL is how they write it.
	LoopbackPort = 5800
	LoopbackURL  = "http://127.0.0.1:5800"
	// WorkDir is the program's current and home directory.
	WorkDir = "/mnt/data"
)

// Paths of Job.Gateway that the sandbox itself knows, because Job.Stubs call
// them.
const (
	// ExecutePath executes one tool of a toolset.
	ExecutePath = "/v1/tool/execute"
	// CallsPath takes the calls of one round: {"calls":[{"name","input"}]}. It
	// answers {"results":[…]} in the same order, each {"result"} or {"error"}.
	CallsPath = "/v1/program/calls"
	// CellPath is where a program that is Interpreter asks for its next Cell. It
	// sends the Report of the one before, or null.
	CellPath = "/v1/program/cell"
)

// MaxCode is the longest program, in bytes.
const MaxCode = 4 << 20

// Exit codes that Portico itself gives, as a shell would.
const (
	ExitTimedOut = 124
	ExitKilled   = 137
)

// MaxLine is the longest piece of a line, in bytes, that Job.Output is given;
// a longer line arrives in several pieces.
const MaxLine = 64 << 10

// Stream names one of a program's two outputs.
type Stream string

// The two outputs of a program.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Status says how an execution ended.
type Status string

// The ends of an execution.
const (
	Completed   Status = "completed"     // exit code 0
	Failed      Status = "failed"        // any other exit code, and death by a signal
	TimedOut    Status = "timed_out"     // over Job.Timeout; everything was killed
	Cancelled   Status = "cancelled"     // the caller's context ended; everything was killed
	OutOfMemory Status = "out_of_memory" // the program died of the memory limit
	Killed      Status = "killed"        // SIGKILL that nobody here sent, or a limit the host enforces
)

// Language is what a program is written in.
type Language string

// The languages of programs. The zero Language is Python. The types of
// TypeScript are taken out and not checked.
const (
	Python     Language = "python"
	Bash       Language = "bash"
	JavaScript Language = "javascript"
	TypeScript Language = "typescript"
)

// Languages are all that there are; see Driver for those that are installed.
func Languages() []Language { return []Language{Python, Bash, JavaScript, TypeScript} }

// Stub is a tool that the program finds as a function, ready to call. In
// Python it takes positional and keyword arguments and may be awaited or not;
// in JavaScript and TypeScript it takes an object and returns a promise; in
// bash it takes a JSON text and prints one, and its failure ends a script that
// does not ask for it. Arguments that are None are not sent, except required
// ones that may be null.
type Stub struct {
	// Identifier is the function's name, valid in the job's language.
	Identifier string `json:"identifier"`
	// Space and Member are a second name, as Space.Member: Space holds the
	// functions of one tool server. Both are empty for none. What a program
	// imports or assigns under the name Space comes first.
	Space  string `json:"space,omitempty"`
	Member string `json:"member,omitempty"`
	// Each takes a list of values of the tool's first parameter in place of the
	// parameters. The function calls the tool for every value, a few at a time,
	// and returns the results in the order of the values. Bash has no such
	// functions.
	Each bool `json:"each,omitempty"`
	// Name is the tool's own name. Toolset is where it belongs; empty for a
	// tool of the caller, whose calls leave in rounds over CallsPath.
	Name    string `json:"name"`
	Toolset string `json:"toolset,omitempty"`
	// Doc is the docstring.
	Doc string `json:"doc,omitempty"`
	// Parameters come in the order of positional arguments. Open takes
	// keywords besides them.
	Parameters []Parameter `json:"parameters"`
	Open       bool        `json:"open"`
	// Returns is the type of the result, as Python writes it; empty where
	// nobody said.
	Returns string `json:"returns,omitempty"`
}

// Parameter is one argument of a Stub.
type Parameter struct {
	Name     string `json:"name"`
	Required bool   `json:"required"`
	// Nullable says that null is a value of it. Only then is a required
	// argument sent that is given as None.
	Nullable bool `json:"nullable,omitempty"`
	// Type is what is said of it in Python, and Default what it is when it is
	// left out, as JSON; both may be empty. Default is for readers: the service
	// that executes the tool fills it in.
	Type    string          `json:"type,omitempty"`
	Default json.RawMessage `json:"default,omitempty"`
}

// Job is one program and everything it may see.
type Job struct {
	// Owner is whom the job is run for: its share of the sandbox bounds what
	// runs, waits and is paused at once. Empty for the server's own jobs.
	Owner string
	// Pauses says that the job will soon give its turn back, to wait for somebody
	// outside. It may then wait for its first turn in the room of paused jobs.
	Pauses bool
	// Code is the source, UTF-8 without NUL, at most MaxCode bytes. In Python, await and
	// return work outside of functions.
	Code     string
	Language Language
	// Args are the program's arguments, as a command line gives them.
	Args []string
	// Env is the program's environment, besides PATH, HOME, LANG and TMPDIR,
	// which it may override.
	Env map[string]string
	// Files are readable, not writable, below ToolsDir.
	Files []File
	// Inputs are the files the program finds in WorkDir, its own to change.
	Inputs []File
	// Collect says what is brought back of the files the program leaves in
	// WorkDir; the zero value brings nothing.
	Collect Collect
	// Gateway answers the program's requests, and nobody else's: those of the
	// SDK and of Stubs over a descriptor that the program inherited, those of
	// other clients over ToolSocket. Without one the program reaches nothing
	// outside.
	Gateway http.Handler
	// Loopback serves Gateway at LoopbackURL, too.
	Loopback bool
	Stubs    []Stub
	// Timeout is the limit of the user's code on the job's clock.
	Timeout time.Duration
	// Clock counts against Timeout. Wall-clock time counts while it runs, and
	// only processor time while it is paused. The engine makes its own.
	Clock *Clock
	// Output, if set, receives each line as it appears, without its line end,
	// and the last one even if it has none. Calls do not overlap, and none
	// comes after Run returned. A slow Output slows the program down.
	Output func(s Stream, line string)
}

// Result is what came out of a job, also of one that was killed.
type Result struct {
	// Stdout and Stderr are valid UTF-8 without NUL: other bytes are replaced
	// by U+FFFD. Of output over the limit the first three quarters and the last
	// are kept, the end from the beginning of a line, and a line between them
	// says how many bytes were dropped: a traceback is always there.
	Stdout, Stderr               string
	StdoutDropped, StderrDropped int64
	// ExitCode is the program's own, 128 + the number of the signal it died
	// of, ExitTimedOut after a timeout, or ExitKilled when it was cancelled.
	ExitCode int
	Status   Status
	// Duration is what the job's clock counted.
	Duration time.Duration
	// Outputs are the regular files in WorkDir when the program had ended, in
	// the order of their paths, inputs that were not changed included.
	// OutputsDropped counts what was left out: files over the limits, links,
	// devices, and names that no other system could hold.
	Outputs        []File
	OutputsDropped int
}

// Driver makes isolated interpreters. All drivers pass sandboxtest.
type Driver interface {
	// Open prepares the driver and removes what a crashed server left.
	Open(ctx context.Context) error
	// Start makes an interpreter that is ready and ran no user code yet.
	Start(ctx context.Context) (Capsule, error)
	// Languages are those that are installed, in the order of the function
	// Languages; none when nothing is.
	Languages() []Language
	// Close kills what is left and releases everything Open took.
	Close() error
}

// Capsule is one isolated interpreter. It runs one job in its life.
type Capsule interface {
	// Run hands the job over and returns when nothing of it runs any more: no
	// process, no gateway call. A job that was killed is a Result, not an
	// error. ErrCapsuleGone means that no user code ran. Run uses the capsule
	// up: Close must still be called, and a second Run fails.
	Run(ctx context.Context, job Job) (Result, error)
	// Close kills everything in the capsule and returns when it is gone.
	Close() error
}

// Errors that callers of the engine and its drivers see.
var (
	// ErrUnavailable is returned when no sandbox can be started here.
	ErrUnavailable = errs.New(errs.Unavailable, "The sandbox cannot run code at the moment.")
	// ErrInvalidJob is returned for a job that breaks a rule of Job.
	ErrInvalidJob = errs.New(errs.Invalid, "The program cannot be run.")
	// ErrCapsuleGone is returned by Capsule.Run when the interpreter died, or
	// was closed, before it took the job.
	ErrCapsuleGone = errs.New(errs.Unavailable, "The sandbox went away before it took the program.")
)

// held is how many bytes of memory the job holds while it waits, without what it
// shares with others.
func (j Job) held() int64 {
	n := len(j.Code)
	for _, text := range j.Args {
		n += len(text)
	}
	for name, value := range j.Env {
		n += len(name) + len(value)
	}
	for _, s := range j.Stubs {
		n += len(s.Name) + len(s.Doc)
		for _, p := range s.Parameters {
			n += len(p.Name)
		}
	}
	for _, f := range j.Inputs {
		n += len(f.Path) + len(f.Content)
	}
	return int64(n)
}

// Validate reports the first rule that the job breaks, as ErrInvalidJob.
func (j Job) Validate() error {
	if err := checkCode(j.Code); err != nil {
		return ErrInvalidJob.Do(errs.Message(err))
	}
	switch {
	case j.Timeout <= 0:
		return ErrInvalidJob.Do("Give a timeout above zero.")
	case j.Language != "" && !slices.Contains(Languages(), j.Language):
		return ErrInvalidJob.Do("There is no such language.")
	case slices.ContainsFunc(j.Args, func(a string) bool { return strings.ContainsRune(a, 0) || !utf8.ValidString(a) }):
		return ErrInvalidJob.Do("Send arguments as UTF-8 without NUL.")
	}
	for name, value := range j.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) ||
			!utf8.ValidString(name) || !utf8.ValidString(value) {
			return ErrInvalidJob.Do("An environment variable has a name or a value that no program can have.")
		}
	}
	for _, f := range slices.Concat(j.Files, j.Inputs) {
		if f.Path == "" || f.Path == "." || f.Path != path.Clean(f.Path) || path.IsAbs(f.Path) ||
			f.Path == ".." || strings.HasPrefix(f.Path, "../") || strings.ContainsRune(f.Path, 0) {
			return ErrInvalidJob.Do("A file has a path that leaves its folder.")
		}
	}
	return nil
}

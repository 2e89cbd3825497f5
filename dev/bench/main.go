// Command bench measures Portico against baselines in the same run on the same
// machine, and prints one line for each number, with its target.
//
// Most of it needs PORTICO_TEST_POSTGRES_URL; `make bench` provides it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/portico-run/portico/dev/instance"
)

// options say how long and against what is measured.
type options struct {
	rounds  int
	time    time.Duration // of one side in one round
	against string        // a commit
	// program is the path of the server as it is given to users, built when it
	// is first asked for.
	program func() (string, error)
}

// benchmark measures some rows.
type benchmark struct {
	name string
	// groups are further names, under which several benchmarks run. What is in
	// none of them runs only when it is named.
	groups string
	run    func(ctx context.Context, o options) ([]result, error)
}

const everything = "all"

func benchmarks() []benchmark {
	all := []benchmark{
		{"search", "all", benchSearch},
		{"knowledge", "all", benchKnowledge},
		{"runs", "all calls", benchRuns},
		{"run", "all calls", benchOneRun},
		{"processes", "all calls", benchProcesses},
		{"program", "all calls", benchProgram},
		{"execute", "all calls", benchExecute},
		{"added", "all calls", benchAdded},
		{"connections", "all calls", benchConnections},
		{"sqlite", "all calls", benchSQLite},
		{"wal", "all calls", benchWAL},
		{"stream", "all", benchStream},
		{"toolcall", "all", benchToolCall},
		{"mcp", "all", benchMCP},
		{"rounds", "all", benchRounds},
		{"forwarded", "all", benchForwarded},
		{"exec", "all sandbox", benchExec},
		{"paused", "all sandbox", benchPaused},
		{"starts", "all sandbox", benchStarts},
		{"remote", "all sandbox", benchRemote},
		{"start", "all server weight", benchStart},
		{"idle", "all server weight", benchIdle},
		{"streams", "all weight", benchStreams},
		{"import", "all weight", benchImport},
		{"build", "all weight", benchBuild},
		{"console", "all weight", benchConsole},
		{"soak", "", benchSoak},
	}
	for _, d := range drivers() {
		all = append(all, benchmark{strings.ToLower(d.name), "all sandbox", func(ctx context.Context, _ options) ([]result, error) {
			return benchDriver(ctx, d)
		}})
	}
	return all
}

func main() {
	var o options
	only := flag.String("only", everything, "comma-separated names of benchmarks or of groups: "+names())
	flag.IntVar(&o.rounds, "rounds", 5, "how often the sides of a comparison take turns")
	flag.DurationVar(&o.time, "time", 2*time.Second, "how long one side is measured in a round")
	flag.StringVar(&o.against, "against", before, "the commit that calls in one run are compared with")
	profile := flag.String("profile", "", "a file for a processor profile of all of it, for go tool pprof")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := profiled(*profile, func() error {
		return withProgram(ctx, o, func(o options) error { return measure(ctx, *only, o) })
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// profiled writes a processor profile of some work, if a file is named.
func profiled(file string, work func() error) (err error) {
	if file == "" {
		return work()
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return work()
}

// withProgram lets the server be built once for all benchmarks.
func withProgram(ctx context.Context, o options, work func(o options) error) (err error) {
	dir, err := os.MkdirTemp("", "portico-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.program = sync.OnceValues(func() (string, error) { return instance.Build(ctx, ".", dir) })
	return work(o)
}

func names() string {
	known := []string{everything, "calls", "sandbox", "server", "weight"}
	for _, b := range benchmarks() {
		known = append(known, b.name)
	}
	return strings.Join(known, ", ")
}

// measure runs what is asked for. A benchmark that fails is a row and keeps the
// others from nothing.
func measure(ctx context.Context, only string, o options) error {
	asked := strings.Split(only, ",")
	known := strings.Split(names(), ", ")
	for _, name := range asked {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%q is no benchmark; there are: %s", name, names())
		}
	}
	begin := load1()
	var results []result
	var failed []error
	for _, b := range benchmarks() {
		if !slices.ContainsFunc(append(strings.Fields(b.groups), b.name), func(name string) bool { return slices.Contains(asked, name) }) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s…\n", b.name)
		r, err := b.run(ctx, o)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", b.name, err))
		}
		results = append(results, r...)
	}
	fmt.Printf("%d processors, load average %s before and %s after; rates: median of %d rounds ± half of their range\n", runtime.NumCPU(), begin, load1(), o.rounds)
	if noise := widest(results); noise > 0 {
		fmt.Printf("noise: the baseline that moved most moved by ±%.0f %% between rounds\n", 100*noise)
	}
	return errors.Join(append(failed, table(results))...)
}

func table(results []result) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tMEASURED\tBASELINE\tRATIO\tTARGET\t")
	for _, r := range results {
		mark := "met"
		switch {
		case r.target == "" || r.target == "-":
			mark = ""
		case !r.holds:
			mark = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.what, r.measured, dash(r.baseline), dash(r.ratio), dash(r.target), mark)
	}
	return w.Flush()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// load1 is the load average of the last minute.
func load1() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

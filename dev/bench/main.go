// Command bench measures Portico against baselines in the same run on the same
// machine, and prints one line for each number, with its target.
//
// It needs PORTICO_TEST_POSTGRES_URL; `make bench` provides it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// result is one line of the table.
type result struct {
	what, measured, baseline, ratio, target string
	holds                                   bool
}

// benchmark measures some lines.
type benchmark struct {
	name string
	run  func(ctx context.Context) ([]result, error)
}

func main() {
	only := flag.String("only", "", "comma-separated names of the benchmarks to run; all without it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := measure(ctx, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// soakName is the one that takes minutes and runs only when it is asked for.
const soakName = "soak"

func measure(ctx context.Context, only string) error {
	var results []result
	for _, b := range []benchmark{
		{"search", benchSearch}, {"execute", benchExecute}, {"stream", benchStream}, {"sandbox", benchSandbox}, {"toolcall", benchToolCall}, {"rounds", benchRounds}, {soakName, benchSoak}, {"server", benchServer},
	} {
		if !slices.Contains(strings.Split(only, ","), b.name) && (only != "" || b.name == soakName) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s…\n", b.name)
		r, err := b.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		results = append(results, r...)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tMEASURED\tBASELINE\tRATIO\tTARGET\t")
	for _, r := range results {
		mark := "ok"
		if !r.holds {
			mark = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.what, r.measured, r.baseline, r.ratio, r.target, mark)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(results) == 0 {
		return errors.New("no benchmark has this name")
	}
	return nil
}

// percentile returns the value below which p of the durations are.
func percentile(durations []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func ms(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}

func times(a, b time.Duration) string { return fmt.Sprintf("%.2f", float64(a)/float64(b)) }

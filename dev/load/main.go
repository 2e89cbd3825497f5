// Command load puts a server under the load that it is made for, and under more
// than that, and says whether it keeps its promises: a table, a picture, and an
// exit status of 1 where it does not.
//
// It needs PORTICO_TEST_POSTGRES_URL and PORTICO_TEST_S3_*; `make load` provides
// them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/portico-run/portico/dev/instance"
)

// options say what is done and for how long.
type options struct {
	steady, overload, step, fault time.Duration
	capacity                      float64 // jobs a second; 0 finds it
	users                         int
	picture                       string
	only                          string
	proxied                       bool
}

// How much of what the machine gives is asked for.
const (
	share = 0.7
	over  = 2.0
)

// watchRecovery is how long the server is watched after the overload.
const watchRecovery = 2 * recovery

func main() {
	var o options
	flag.DurationVar(&o.steady, "duration", 10*time.Minute, "how long the load is steady, at 70 % of what the machine gives")
	flag.DurationVar(&o.overload, "overload", 2*time.Minute, "how long it is twice what the machine gives")
	flag.DurationVar(&o.step, "step", 10*time.Second, "how long each number of workers is tried to find what the machine gives")
	flag.DurationVar(&o.fault, "fault", 15*time.Second, "how long each fault lasts at least")
	flag.Float64Var(&o.capacity, "capacity", 0, "jobs a second that the machine gives; found by trying when it is 0")
	flag.IntVar(&o.users, "users", 8, "how many users there are")
	flag.StringVar(&o.picture, "picture", ".cache/load.png", "the file that the picture is written to")
	flag.StringVar(&o.only, "only", "", "load or faults; both without it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

var errMissed = errors.New("not everything held")

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "portico-load-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, err := instance.Build(ctx, ".", dir)
	if err != nil {
		return err
	}
	var checks []check
	if o.only != "faults" {
		phases, found, err := underLoad(ctx, o, program)
		if err != nil {
			return err
		}
		checks = append(checks, found...)
		if err := errors.Join(phaseTable(phases), os.MkdirAll(filepath.Dir(o.picture), 0o755), drawPhases(phases, o.picture)); err != nil {
			return err
		}
		fmt.Printf("the picture of it: %s\n\n", o.picture)
	}
	if o.only != "load" {
		found, err := withFaults(ctx, o, program)
		if err != nil {
			return errors.Join(err, checkTable(checks))
		}
		checks = append(checks, found...)
	}
	if err := checkTable(checks); err != nil {
		return err
	}
	for _, c := range checks {
		if !c.holds {
			return errMissed
		}
	}
	return nil
}

// underLoad finds what the machine gives and asks for less, for more, and for
// less again.
func underLoad(ctx context.Context, o options, program string) (phases []phase, checks []check, err error) {
	w, err := build(ctx, o, program)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	capacity := o.capacity
	if capacity == 0 {
		fmt.Fprintln(os.Stderr, "what the machine gives…")
		if capacity, err = w.ramp(ctx, o.step); err != nil {
			return nil, nil, err
		}
		if err := settle(ctx); err != nil {
			return nil, nil, err
		}
	}
	for _, part := range []struct {
		name string
		rate float64
		d    time.Duration
	}{{"steady", share * capacity, o.steady}, {"overload", over * capacity, o.overload}, {"recovery", share * capacity, watchRecovery}} {
		var p phase
		p, err = w.run(ctx, part.name, part.rate, part.d)
		phases = append(phases, p)
		if err != nil {
			break
		}
	}
	// One phase follows the other at once, with what the one before left behind.
	for n := range phases {
		p := &phases[n]
		p.wait()
		p.summary, p.seconds = p.recorder.summary(), p.recorder.seconds()
	}
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	checks = append(checkSteady(phases[0]), checkOverload(phases[1])...)
	return phases, append(checks, checkRecovery(phases[2], phases[0])...), nil
}

// withFaults starts another server, with something between it and what it
// depends on.
func withFaults(ctx context.Context, o options, program string) (checks []check, err error) {
	o.proxied = true
	w, err := build(ctx, o, program)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	return w.faults(ctx, o.fault)
}

func phaseTable(phases []phase) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "PHASE\tJOBS/S BEGUN\tDONE/S\tDONE\tREFUSED\tFAILED\tNOT BEGUN\tCALL IN A RUN p50, p99\tCALL OF A PROGRAM p50, p99\tMEMORY AT THE END")
	for _, p := range phases {
		s := p.summary
		memory := "-"
		if len(p.usage) > 0 {
			memory = fmt.Sprintf("%.0f MiB", float64(p.usage[len(p.usage)-1].RSS)/(1<<20))
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%d\t%d\t%d\t%d\t%s, %s\t%s, %s\t%s\n", p.name, p.rate, s.perSecond, s.done, s.refused, s.failed, s.skipped,
			short(s.p50[direct]), short(s.p99[direct]), short(s.p50[inProgram]), short(s.p99[inProgram]), memory)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, p := range phases {
		for _, f := range p.summary.failures {
			fmt.Printf("%s: %s\n", p.name, f)
		}
	}
	return nil
}

func checkTable(checks []check) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tMEASURED\tTARGET\t")
	for _, c := range checks {
		mark := "met"
		if !c.holds {
			mark = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.what, strings.ReplaceAll(c.measured, "\n", " "), c.target, mark)
	}
	return w.Flush()
}

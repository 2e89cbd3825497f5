package lifecycle_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portico-run/portico/internal/lifecycle"
)

type part struct {
	name string
	fail error
	log  *[]string
}

func (p part) Start(context.Context) error {
	if p.fail == nil {
		*p.log = append(*p.log, "start "+p.name)
	}
	return p.fail
}

func (p part) Stop(context.Context) error {
	*p.log = append(*p.log, "stop "+p.name)
	return nil
}

func TestGroupStopsInReverse(t *testing.T) {
	t.Parallel()
	var log []string
	var g lifecycle.Group
	g.Add("a", part{name: "a", log: &log})
	g.Add("b", part{name: "b", log: &log})
	if err := errors.Join(g.Start(t.Context()), g.Stop(t.Context()), g.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"start a", "start b", "stop b", "stop a"}, log); diff != "" {
		t.Error(diff)
	}
}

func TestGroupStopsWhatItStartedWhenOneFails(t *testing.T) {
	t.Parallel()
	var log []string
	boom := errors.New("boom")
	var g lifecycle.Group
	g.Add("a", part{name: "a", log: &log})
	g.Add("b", part{name: "b", log: &log, fail: boom})
	if err := g.Start(t.Context()); !errors.Is(err, boom) {
		t.Fatalf("Start = %v, want boom", err)
	}
	if diff := cmp.Diff([]string{"start a", "stop a"}, log); diff != "" {
		t.Error(diff)
	}
}

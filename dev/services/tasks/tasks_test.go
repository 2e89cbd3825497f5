package tasks_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/services"
	"github.com/portico-run/portico/dev/services/tasks"
)

var update = flag.Bool("update", false, "write the golden file anew")

// The data, and with them the questions and their right answers, are the same
// everywhere and every time: numbers of two installations can be compared.
func TestTasksAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	names, abouts, questions := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, task := range tasks.All() {
		fmt.Fprintf(&b, "%s: %s\n  %s\n  %+v\n  changes %v, refusals %d\n", task.Name, task.About, task.Question, task.Right, task.Writes, task.Locked)
		names[task.Name], abouts[task.About], questions[task.Question] = true, true, true
		require.NotEmpty(t, task.Toolsets)
		require.Subset(t, services.Keys(), task.Toolsets)
	}
	require.Len(t, names, 20)
	require.Len(t, abouts, 20)
	require.Len(t, questions, 20)
	const golden = "testdata/tasks.golden"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "go test ./dev/services/tasks -update writes it anew")
}

// Every task knows the right answer, and takes neither a wrong one, nor no answer,
// nor its own question, nor a right one after something else was done.
func TestWrongAnswersAreNotTaken(t *testing.T) {
	t.Parallel()
	for _, task := range tasks.All() {
		right, wrong := tasks.Answers(task)
		done := services.State{Writes: task.Writes, Locked: task.Locked}
		require.NoError(t, task.Check(right, done), task.Name)
		for _, text := range []string{wrong, "", task.Question, "I cannot do that."} {
			require.Error(t, task.Check(text, done), "%s: %s", task.Name, text)
		}
		more, fewer := done, done
		more.Writes = append([]string{"cancel O-1001"}, task.Writes...)
		require.ErrorContains(t, task.Check(right, more), "it should have changed", task.Name)
		if len(task.Writes) > 0 {
			fewer.Writes = task.Writes[1:]
			require.ErrorContains(t, task.Check(right, fewer), "it should have changed", task.Name)
			twice := done
			twice.Writes = append([]string{task.Writes[0]}, task.Writes...)
			require.ErrorContains(t, task.Check(right, twice), "it should have changed", task.Name)
		}
		other := done
		other.Locked = 1 - task.Locked
		require.ErrorContains(t, task.Check(right, other), "refusals", task.Name)
	}
}

// How an answer is written does not matter, what it says does.
func TestAnswersMayBeWrittenInAnyWay(t *testing.T) {
	t.Parallel()
	money := tasks.Answer{Numbers: []float64{1234.5}}
	for _, text := range []string{
		"1234.5", "It is **1,234.50** euros.", "€1,234.50", "1.234,50 €", "1 234,50", "1 234.50 EUR", "1'234.50", "| total | 1234.50 |", "$1,234.50.", "(1234.499)",
	} {
		require.NoError(t, money.Check(text), text)
	}
	for _, text := range []string{"1234", "1,234.60", "12345", "-1234.50", "O-1234.5", "x1234.5", "1,235", ""} {
		require.Error(t, money.Check(text), text)
	}
	require.NoError(t, tasks.Answer{Numbers: []float64{-3.2}}.Check("It was −3.2 degrees."))
	require.NoError(t, tasks.Answer{Numbers: []float64{-3.2}}.Check("It was -3.2 degrees."))
	require.Error(t, tasks.Answer{Numbers: []float64{3}}.Check("On 2026-03-14, order O-3."))
	for _, text := range []string{"**42** orders", "In 2026, 42", "17 42", "42nd", "(42)", "42/100", "42, 43"} {
		require.NoError(t, tasks.Answer{Numbers: []float64{42}}.Check(text), text)
	}
	for _, text := range []string{"2026-03-23", "23 March", "March 23rd, 2026", "23.03.2026", "03/23/2026"} {
		require.NoError(t, tasks.Answer{Numbers: []float64{23}}.Check(text), text)
	}

	words := tasks.Answer{Words: []string{"Lars Holm"}, None: []string{"gold"}}
	require.NoError(t, words.Check("The contact is **lars holm**."))
	require.NoError(t, words.Check("Lars Holm, of Goldberg"))
	require.Error(t, words.Check("Lars Holmberg"))
	require.Error(t, words.Check("Lars Holm, gold"))

	none := tasks.Answer{Any: []string{"doesn't exist", "no order"}, Unpriced: true}
	require.NoError(t, none.Check("Order O-1999 doesn’t exist."))
	require.Error(t, none.Check("There is no order O-1999, but it may be 12.50."))
}

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/portico-run/portico/internal/errs"
)

// Failure names why a program did not complete, the same on every surface.
type Failure string

// The failures. The zero Failure is that of a program that completed.
const (
	FailedItself      Failure = "failed" // its own doing, a signal included
	FailedTimeout     Failure = "timeout"
	FailedMemory      Failure = "out_of_memory"
	FailedCancelled   Failure = "cancelled"
	FailedUnavailable Failure = "runtime_unavailable" // the sandbox did not take it, or lost it
)

// ErrLost is returned when the sandbox failed while the program ran.
var ErrLost = errs.New(errs.Unavailable, "The sandbox lost the program while it ran.")

// Failure names why an execution with this status did not complete.
func (s Status) Failure() Failure {
	switch s {
	case Completed:
		return ""
	case TimedOut:
		return FailedTimeout
	case OutOfMemory:
		return FailedMemory
	case Cancelled:
		return FailedCancelled
	}
	return FailedItself
}

// FailureOf names what an error of Run, Begin or Result means for the program.
func FailureOf(err error) Failure {
	switch code := errs.CodeOf(err); {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return FailedCancelled
	case code == errs.Unavailable || code == errs.RateLimited:
		return FailedUnavailable
	}
	return FailedItself
}

// Sentence says how the execution ended, in words for the program's author.
func (r Result) Sentence() string {
	switch r.Status {
	case Completed:
		return "The program completed."
	case TimedOut:
		return fmt.Sprintf("The program was stopped at its time limit, after %d ms.", r.Duration.Milliseconds())
	case Cancelled:
		return "The program was stopped because the request ended."
	case OutOfMemory:
		return "The program ran out of memory."
	case Killed:
		return "The program was killed."
	}
	return fmt.Sprintf("The program ended with exit code %d.", r.ExitCode)
}

// CallsMade says how many tool calls a program that did not complete had made.
func CallsMade(n int) string {
	switch n {
	case 0:
		return "It had made no tool calls."
	case 1:
		return "It had made 1 tool call, which is not undone."
	}
	return fmt.Sprintf("It had made %d tool calls, which are not undone.", n)
}

// Note adds a line of the server's own to the error output of a program.
func Note(stderr, line string) string {
	if stderr != "" && !strings.HasSuffix(stderr, "\n") {
		stderr += "\n"
	}
	return stderr + "[" + line + "]\n"
}

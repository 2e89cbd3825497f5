package errs_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/portico-run/portico/internal/errs"
)

func TestErrorHidesItsCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("password=hunter2")
	err := errs.New(errs.Unavailable, "The database is out of reach.").With(cause)

	if got, want := err.Error(), "E0001: The database is out of reach."; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if !errors.Is(err, cause) {
		t.Error("the cause cannot be reached through errors.Is")
	}
}

func TestErrorIsComparesCodeAndMessage(t *testing.T) {
	t.Parallel()
	missing := errs.New(errs.NotFound, "No such run.")
	wrapped := fmt.Errorf("read run: %w", missing.With(errors.New("no rows")).Do("Check the id."))

	if !errors.Is(wrapped, missing) {
		t.Error("an occurrence with a cause is not recognised as the exported error")
	}
	if errors.Is(wrapped, errs.New(errs.NotFound, "No such key.")) {
		t.Error("two errors of one code are taken for the same")
	}
	if errors.Is(missing, errs.New(errs.Invalid, "No such run.")) {
		t.Error("two errors of one sentence are taken for the same")
	}
}

func TestCodeOf(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		err  error
		want errs.Code
	}{
		"nil":     {nil, ""},
		"foreign": {errors.New("boom"), errs.Internal},
		"wrapped": {fmt.Errorf("x: %w", errs.New(errs.Conflict, "Busy.")), errs.Conflict},
	}
	for name, c := range cases {
		if got := errs.CodeOf(c.err); got != c.want {
			t.Errorf("%s: CodeOf = %q, want %q", name, got, c.want)
		}
	}
}

func TestEveryCodeHasItsOwnStatusClass(t *testing.T) {
	t.Parallel()
	seen := map[errs.Code]bool{}
	for _, c := range errs.Codes() {
		if seen[c] {
			t.Errorf("%s is listed twice", c)
		}
		seen[c] = true
		if s := c.Status(); s < 400 || s > 599 {
			t.Errorf("%s has status %d, not an error", c, s)
		}
		if c != errs.Internal && c.Status() == 500 {
			t.Errorf("%s falls through to 500: give it a status", c)
		}
	}
}

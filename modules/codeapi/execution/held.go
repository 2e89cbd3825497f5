package execution

import (
	"io"

	"github.com/portico-run/portico/internal/errs"
)

// heldBody is a request for calls, which counts among what the program holds as
// it is read.
type heldBody struct {
	io.Reader

	calls *exchange
	held  int64
}

// Read implements io.Reader.
func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if !b.calls.hold(int64(n)) {
		return 0, errs.Newf(errs.TooLarge, "The calls that wait for results would have more than %d bytes together.", b.calls.limits.MaxState).
			Do("Make fewer calls at once, or give them less.")
	}
	b.held += int64(n)
	return n, err
}

// hold counts bytes of calls, unless they are too many.
func (e *exchange) hold(n int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held+n > e.limits.MaxState {
		return false
	}
	e.held += n
	return true
}

func (e *exchange) release(n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held -= n
}

// answer lets the program have the results of its calls. Callers hold the lock.
func (e *exchange) answer(b *batch) {
	e.held -= b.held
	close(b.done)
}

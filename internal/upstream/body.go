package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/portico-run/portico/internal/budget"
)

// smallBody is how much of an answer is read before its size is counted.
const smallBody = 1 << 20

// errNoRoom says that the budget for large values was used up for too long.
var errNoRoom = errors.New("no room for a large answer")

// errTooLarge is a response over the cap; size is negative if it is not known.
type errTooLarge struct{ size, limit int64 }

func (e errTooLarge) Error() string { return fmt.Sprintf("%d is over %d bytes", e.size, e.limit) }

// read reads the body of an answer, of at most limit bytes. What the upstream
// says about its size decides only how soon a large one is refused.
func read(ctx context.Context, resp *http.Response, limit int64) ([]byte, error) {
	declared := resp.ContentLength
	if resp.Request != nil && resp.Request.Method == http.MethodHead {
		declared = 0 // it is the length of what is not sent
	}
	if declared > limit {
		return nil, errTooLarge{declared, limit}
	}
	body, err := small(resp.Body, declared, min(smallBody, limit))
	if err != nil || int64(len(body)) <= min(smallBody, limit) {
		return body, err
	}
	if int64(len(body)) > limit {
		return nil, errTooLarge{-1, limit}
	}
	if declared < 0 {
		declared = limit
	}
	if err := budget.Take(ctx, declared); err != nil {
		return nil, errors.Join(errNoRoom, err)
	}
	// One more byte than may come shows that more has come.
	whole := bytes.NewBuffer(make([]byte, 0, declared+1+bytes.MinRead))
	whole.Write(body)
	if _, err := whole.ReadFrom(io.LimitReader(resp.Body, declared+1-int64(len(body)))); err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	if int64(whole.Len()) > declared {
		return nil, errTooLarge{-1, limit}
	}
	return whole.Bytes(), nil
}

// small reads a body up to one byte over limit.
func small(r io.Reader, declared, limit int64) ([]byte, error) {
	var b bytes.Buffer
	if declared > 0 {
		b.Grow(int(min(declared, limit)) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	return b.Bytes(), nil
}

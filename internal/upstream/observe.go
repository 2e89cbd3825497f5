package upstream

import (
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/egress"
)

// Result is how a request went, in a word of a short list.
type Result string

// How requests go.
const (
	Success   Result = "success"
	Refused   Result = "refused"   // a status below 500 that is no success
	Failing   Result = "failing"   // a status of 500 and more
	NoAnswer  Result = "no_answer" // not in time, or not at all
	Cancelled Result = "cancelled" // the caller left
	Skipped   Result = "skipped"   // not sent, because the upstream is left alone
)

func resultOf(resp *http.Response, err error) Result {
	switch {
	case err != nil && egress.KindOf(err) == egress.Canceled:
		return Cancelled
	case err != nil:
		return NoAnswer
	case resp.StatusCode >= http.StatusInternalServerError:
		return Failing
	case resp.StatusCode >= http.StatusBadRequest:
		return Refused
	}
	return Success
}

func (c *Caller) observe(r Result, took time.Duration) {
	if c.deps.Observe != nil {
		c.deps.Observe(r, took)
	}
}

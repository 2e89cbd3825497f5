package egress

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
)

// unsent is the error of a request of which nothing was sent.
type unsent struct{ error }

// Unwrap returns why.
func (u unsent) Unwrap() error { return u.error }

// watched makes a request, with its redirects, and marks the error of one of which
// nothing was sent. It takes the address out of errors: it may hold a credential or a
// signature, and errors are logged.
func watched(client *http.Client, r *http.Request) (*http.Response, error) {
	var asked, sent atomic.Bool
	trace := &httptrace.ClientTrace{
		GetConn:          func(string) { asked.Store(true) },
		WroteHeaderField: func(string, []string) { sent.Store(true) }, // before the headers are whole, which long ones leave as they are written
	}
	answer, err := client.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace))) //nolint:gosec // the caller has checked the address
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	switch {
	case err == nil || sent.Load():
		return answer, err
	case !asked.Load() && r.Context().Err() == nil:
		return answer, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return answer, unsent{err}
}

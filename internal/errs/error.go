// Package errs is the one error type of the product: a public code, a public
// sentence, what to do about it, and a private cause.
//
// Services return these errors; the HTTP edge maps them once. Any other error
// reaches the client as Internal, without its text.
package errs

import (
	"errors"
	"fmt"
	"time"
)

// Error is a failure that may be shown to a client, except for its cause.
type Error struct {
	// Code is what the client's program reacts to.
	Code Code
	// Message says what is wrong, in one sentence.
	Message string
	// Detail tells the caller what to do; it may be empty.
	Detail string
	// RetryAfter is when trying again can help; zero when it says nothing.
	RetryAfter time.Duration
	// URL is where a person authorizes what the request needs; empty where that is
	// not what is wrong.
	URL string
	// Planned says that nothing is wrong: a process refuses because it is ending as it
	// should. It is for the log.
	Planned bool

	cause error
}

// New returns an error with a code and a message that a client may see.
func New(code Code, message string) *Error {
	return &Error{Code: code, Message: message}
}

// Newf is New with a format. Its operands become public.
func Newf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error is the public sentence. The cause is deliberately not part of it, so
// that an error printed into a response leaks nothing.
func (e *Error) Error() string {
	return string(e.Code) + ": " + e.Message
}

// Unwrap returns the private cause, for logs and errors.Is.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an *Error with the same code and message, so
// that a package can export its errors as values and give each occurrence its
// own cause.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == e.Message
}

// With returns a copy of e that carries a private cause.
func (e *Error) With(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// Do returns a copy of e with what the caller should do about it.
func (e *Error) Do(detail string) *Error {
	c := *e
	c.Detail = detail
	return &c
}

// After returns a copy of e that says when to try again.
func (e *Error) After(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// AsPlanned returns a copy of e that is no fault: the process is ending as it should.
func (e *Error) AsPlanned() *Error {
	c := *e
	c.Planned = true
	return &c
}

// IsPlanned reports whether the first *Error in err's chain is a planned refusal.
func IsPlanned(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Planned
}

// At returns a copy of e that says where a person authorizes what is needed.
func (e *Error) At(url string) *Error {
	c := *e
	c.URL = url
	return &c
}

// CodeOf returns the code of the first *Error in err's chain, Internal for any
// other error, and the empty code for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// Message is the public sentence of the first *Error in err's chain, and a
// general one for any other error.
func Message(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	return "The server has a fault."
}

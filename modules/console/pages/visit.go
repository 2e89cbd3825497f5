// Package pages holds what every page of the console is made of: who asks, how the
// API is asked for that person, and what is shown.
//
// A page is a function from a Visit to an Answer, under a pattern of net/http
// below the console's path, such as "GET /keys". It asks the API with Visit.API,
// which answers as it would answer the same person over the network. It returns the
// name of a template and its data, or a path of the console to go to (after a form).
// An error that it returns becomes the page of errors: what the API said stays what
// is shown, 401 leads to the page to sign in and back. The layout around a template
// has the one h1, which is Answer.Title.
//
// Forms post to the console, never to the API; posts from pages of other origins
// do not arrive. Templates write addresses with {{path "/keys/" .ID}}, moments with
// {{when .At}}, sizes with {{size .Bytes}} and icons with {{icon "key"}}. Styles are
// classes: the content security policy refuses style attributes and inline scripts.
package pages

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
)

// Caller asks the API as the person who is signed in.
type Caller interface {
	Call(ctx context.Context, r Request, into any) error
}

// Request is one request to the API. Of Body and Stream at most one is set.
type Request struct {
	Method, Path string
	Query        url.Values
	Body         any // sent as JSON
	Stream       io.Reader
	Type         string // media type of Stream
	Once         string // the Idempotency-Key
}

// Refusal is an error of the API.
type Refusal struct{ Problem }

func (r Refusal) Error() string { return r.Message }

// Problem is what the API said was wrong.
type Problem struct {
	Status                   int
	Message, Detail, TraceID string
}

// ProblemOf is what the API said; ok is false if it said nothing.
func ProblemOf(err error) (p Problem, ok bool) {
	r, ok := errors.AsType[Refusal](err)
	return r.Problem, ok
}

// Visit is a request for a page.
type Visit struct {
	R   *http.Request
	W   http.ResponseWriter // only for an Answer without a template
	API Caller
}

// Answer is a page, or a path of the console that the browser goes to. With
// neither, the answer is written.
type Answer struct {
	Title, Template string
	Data            any
	Status          int // 200 when left out
	To              string
	Wide            bool // takes the whole width of the window
}

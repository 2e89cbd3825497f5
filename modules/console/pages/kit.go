package pages

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/console/form"
	"github.com/portico-run/portico/modules/console/help"
)

// Pages are the pages about what a person has and what an administrator sees.
type Pages struct {
	documents                                                              func() (*help.Library, error) // read when they are first asked for
	now                                                                    func() time.Time
	createKey, createCanvas, anyObject, password, newLimits, newUser, gift *form.Form
}

func (v *Visit) get(path string, query url.Values, into any) error {
	return v.API.Call(v.R.Context(), Request{Method: http.MethodGet, Path: path, Query: query}, into)
}

func (v *Visit) send(method, path string, body, into any) error {
	return v.API.Call(v.R.Context(), Request{Method: method, Path: path, Body: body}, into)
}

func (v *Visit) sendOnce(path string, body any, nonce string, into any) error {
	return v.API.Call(v.R.Context(), Request{Method: http.MethodPost, Path: path, Body: body, Once: nonce}, into)
}

func (v *Visit) stream(path, media string, body io.Reader) error {
	return v.API.Call(v.R.Context(), Request{Method: http.MethodPost, Path: path, Stream: body, Type: media}, nil)
}

// posted is what the form of the page sent.
func (v *Visit) posted() (url.Values, error) {
	if err := v.R.ParseForm(); err != nil {
		return nil, errNoForm
	}
	return v.R.PostForm, nil
}

// submit reads a form and sends what it means. Where the API refuses that, or the
// form does, ok is false and the view says why.
func (v *Visit) submit(f *form.Form, prefix string, send func(body json.RawMessage) error) (view form.View, ok bool, err error) {
	posted, err := v.posted()
	if err != nil {
		return view, false, err
	}
	object, wrong := f.Read(posted)
	if len(wrong) == 0 {
		err = send(object)
		refused, said := ProblemOf(err)
		if err == nil || !said || refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusUnauthorized {
			return view, err == nil, err
		}
		wrong = []form.Problem{{Message: refused.Message + " " + refused.Detail}}
	}
	return f.View(prefix, posted, wrong), false, nil
}

// nonce names one filling in of a form, so that sending it twice does it once.
func nonce() string { return "n-" + rand.Text() }

// next is the address of the page's next part; empty if there is none.
func (v *Visit) next(cursor string) string {
	if cursor == "" {
		return ""
	}
	q := v.R.URL.Query()
	q.Set("cursor", cursor)
	return "?" + q.Encode()
}

// list is a list of the API.
type list[T any] struct {
	Items      []T
	NextCursor string
}

// part is a part of a page, which can be missing for a reason of its own.
type part[T any] struct {
	Data    T
	Problem *Problem
	err     error
}

func load[T any](v *Visit, path string, query url.Values) part[T] {
	var p part[T]
	p.err = v.get(path, query, &p.Data)
	if p.err == nil {
		return p
	}
	said, ok := ProblemOf(p.err)
	if !ok {
		said = Problem{Status: http.StatusInternalServerError, Message: "This part could not be read.", Detail: "Try again later."}
	}
	p.Problem = &said
	return p
}

// pick takes some members of a query.
func pick(q url.Values, names ...string) url.Values {
	picked := url.Values{}
	for _, name := range names {
		if q.Get(name) != "" {
			picked.Set(name, q.Get(name))
		}
	}
	return picked
}

// with is a query with one member more.
func with(q url.Values, name, value string) url.Values {
	more := url.Values{name: {value}}
	maps.Copy(more, q)
	return more
}

var (
	errNoForm    = errs.New(errs.Invalid, "The form could not be read.").Do("Go back and send it again.")
	errNoFile    = errs.New(errs.Invalid, "No file came with the form.").Do("Choose a file, then upload.")
	errBadDay    = errs.New(errs.Invalid, "The period is not one.").Do("Choose a first and a last day, at most a year apart.")
	errBadSearch = errs.New(errs.Invalid, "The search is too long.").Do("Search for a few words.")
	errNoPage    = errs.New(errs.NotFound, "There is no such page.").Do("Check the address.")
)

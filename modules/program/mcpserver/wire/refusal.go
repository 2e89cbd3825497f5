package wire

import (
	"bytes"
	"errors"
	"net/http"
	"strings"

	"github.com/portico-run/portico/internal/errs"
)

// Refusal keeps back an answer that is a text about what is wrong, so that it can be
// one like all others of the API.
type Refusal struct {
	http.ResponseWriter

	NoSession error // the answer where a session has ended

	status int // of the text; 0 for any other answer
	text   bytes.Buffer
}

// Unwrap is for http.ResponseController.
func (f *Refusal) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// Flush implements http.Flusher.
func (f *Refusal) Flush() {
	if f.status == 0 {
		_ = http.NewResponseController(f.ResponseWriter).Flush() // the next write says that the client is gone
	}
}

// WriteHeader implements http.ResponseWriter.
func (f *Refusal) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(f.Header().Get("Content-Type"), "text/plain") {
		f.status = status
		return
	}
	f.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (f *Refusal) Write(p []byte) (int, error) {
	if f.status != 0 {
		return f.text.Write(p)
	}
	return f.ResponseWriter.Write(p)
}

// Error is the answer that was kept back; nil where there is none.
func (f *Refusal) Error() error {
	if f.status == 0 {
		return nil
	}
	for _, name := range []string{"Content-Type", "X-Content-Type-Options", "Content-Length"} {
		f.Header().Del(name)
	}
	text := strings.TrimSpace(f.text.String())
	if f.status >= http.StatusInternalServerError {
		return errs.New(errs.Internal, "The message could not be answered.").With(errors.New(text))
	}
	if f.status == http.StatusNotFound { // it ended meanwhile
		return f.NoSession
	}
	return ErrNotTaken.Do(text)
}

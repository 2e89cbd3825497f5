package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi/decode"
)

// ReadJSON reads the body of a Raw operation, which must be JSON, as all other
// bodies are read: members that into does not know are ignored, unless they
// are nearly ones that it knows.
func ReadJSON(r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return errs.New(errs.Unsupported, "The content type is not supported").Do("Send application/json.")
	}
	body, err := io.ReadAll(r.Body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errs.Newf(errs.TooLarge, "The request body is larger than %d bytes.", tooLarge.Limit)
	}
	if err != nil {
		return errs.New(errs.Invalid, "The request body could not be read.").With(err)
	}
	if len(body) == 0 {
		return errs.New(errs.Invalid, "The request body is empty")
	}
	if err := decode.JSON(body, into); err != nil {
		return errs.New(errs.Invalid, sentence(err)).With(err)
	}
	return nil
}

// sentence names the body where a problem is with the whole of it.
func sentence(err error) string {
	text := err.Error()
	if len(text) > 3 && text[:3] == "is " {
		text = "The request body " + text
	}
	return text
}

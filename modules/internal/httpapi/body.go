package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/portico-run/portico/modules/internal/errs"
)

// ReadJSON reads the body of a Raw operation, which must be JSON. A closed one
// may have no members that into does not know.
func ReadJSON(r *http.Request, into any, closed bool) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return errs.New(errs.Unsupported, "The content type is not supported").Do("Send application/json.")
	}
	d := json.NewDecoder(r.Body)
	if closed {
		d.DisallowUnknownFields()
	}
	err := d.Decode(into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := wrong.Field
		if field == "" {
			field = "The body"
		}
		return errs.Newf(errs.Invalid, "%s must not be of type %s", field, wrong.Value)
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errs.Newf(errs.TooLarge, "The request body is larger than %d bytes.", tooLarge.Limit)
	}
	switch {
	case errors.Is(err, io.EOF):
		return errs.New(errs.Invalid, "The request body is empty")
	case err != nil:
		refusal := errs.New(errs.Invalid, "The request body is not JSON").With(err)
		if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			refusal = errs.Newf(errs.Invalid, "There is no field %.100s", name).With(err)
		}
		return refusal
	}
	return nil
}

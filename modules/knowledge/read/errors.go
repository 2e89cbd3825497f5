package read

import (
	"fmt"
	"io"

	"github.com/portico-run/portico/internal/errs"
)

// Errors of sources; the detail says what to do.
var (
	ErrType      = errs.New(errs.Unsupported, "Documents of this type cannot be read.")
	ErrTooLarge  = errs.New(errs.TooLarge, "The document is too large.")
	ErrEmpty     = errs.New(errs.Invalid, "The document has no text.")
	ErrEncrypted = errs.New(errs.Invalid, "The document is encrypted.")
	ErrDamaged   = errs.New(errs.Invalid, "The document cannot be read.")
)

// content is all of a source, of at most limit bytes.
func content(s Source, limit int64) ([]byte, error) {
	tooLarge := ErrTooLarge.Do(fmt.Sprintf("At most %d bytes of this type are read. Split it, or give the part that matters.", limit))
	if s.Size > limit {
		return nil, tooLarge
	}
	r, err := s.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		return nil, tooLarge
	}
	return b, err
}

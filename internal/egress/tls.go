package egress

import (
	"crypto/tls"
	"errors"
	"net/http"
)

// isTLS reports whether a secure connection failed because of what the other
// side presented.
func isTLS(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       tls.AlertError
	)
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &alert) || errors.Is(err, http.ErrSchemeMismatch)
}

package rest

import (
	"net/http"
	"testing"
	"time"

	"github.com/portico-run/portico/modules/toolset"
)

// Signed are the headers of a signed request.
func Signed(t *testing.T, method, url, contentType, body string, c toolset.Credential, now time.Time) http.Header {
	t.Helper()
	r := request{Method: method, URL: url, Header: http.Header{"Content-Type": {contentType}}, Body: []byte(body)}
	if err := r.sign(c, now); err != nil {
		t.Fatal(err)
	}
	return r.Header
}

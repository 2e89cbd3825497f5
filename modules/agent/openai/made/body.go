package made

import (
	"crypto/sha256"
	"io"
	"net/http"

	"github.com/portico-run/portico/internal/httpapi"
)

// Body reads the body of a request, and makes what tells it apart from all others of its
// route.
func Body(r *http.Request, route string, into any) (digest [sha256.Size]byte, err error) {
	hash := sha256.New()
	hash.Write([]byte(route + "\n"))
	r.Body = io.NopCloser(io.TeeReader(r.Body, hash))
	if err := httpapi.ReadJSON(r, into); err != nil {
		return digest, err
	}
	hash.Sum(digest[:0])
	return digest, nil
}

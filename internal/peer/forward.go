package peer

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"maps"
	"mime"
	"net/http"
	"strings"

	"github.com/portico-run/portico/internal/actor"
)

// opRequest is a whole request of a client.
const opRequest = "request"

// Forward lets another process answer a request, whose body was read already, and
// writes what it answers. The request goes there as it came, with its credential,
// which counts there as it does here. An error says that nothing was written.
func (s *Service) Forward(w http.ResponseWriter, r *http.Request, body []byte, to string) error {
	who, _ := actor.From(r.Context())
	header := maps.Clone(r.Header)
	clean(header)
	header.Set(headerMethod, r.Method)
	header.Set(headerTarget, r.URL.RequestURI())
	header.Set(headerHost, r.Host)
	header.Set(headerClient, r.RemoteAddr)
	id := rand.Text()
	header.Set(headerRequest, id)
	defer s.tellLeft(r.Context(), to, who, id)
	got, err := s.send(r.Context(), question{to: to, op: opRequest, who: who, header: header, body: body})
	if err != nil {
		return err
	}
	defer got.Close()
	return answer(r.Context(), w, got.Response)
}

// clean takes out what belongs to one connection, or to processes alone.
func clean(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, prefix) {
			delete(h, name)
		}
	}
	for _, name := range []string{"Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
}

// answer hands an answer on. One that is no stream is read whole first, so that one
// that is lost on the way is an error.
func answer(ctx context.Context, w http.ResponseWriter, r *http.Response) error {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	stream := kind == "text/event-stream"
	var head bytes.Buffer
	if !stream {
		if _, err := io.CopyN(&head, r.Body, maxWhole); err != nil && err != io.EOF { //nolint:errorlint // the reader's own
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return ErrBroken.With(err)
		}
	}
	clean(r.Header)
	maps.Copy(w.Header(), r.Header)
	w.WriteHeader(r.StatusCode)
	err := pass(w, &head, false)
	if err == nil {
		err = pass(w, r.Body, stream)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client sees that the answer is not whole
	}
	return nil
}

// maxWhole is the largest answer that is handed on only when it is there whole.
const maxWhole = 32 << 20

// pass copies bytes; those of a stream leave at once.
func pass(w http.ResponseWriter, from io.Reader, stream bool) error {
	if !stream {
		_, err := io.Copy(w, from)
		return err
	}
	leaves := http.NewResponseController(w)
	if err := leaves.Flush(); err != nil {
		return err
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
			if err := leaves.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

type forwardedKey struct{}

// Forwarded reports whether a request came from another process. It is not sent on.
func Forwarded(ctx context.Context) bool {
	_, ok := ctx.Value(forwardedKey{}).(bool)
	return ok
}

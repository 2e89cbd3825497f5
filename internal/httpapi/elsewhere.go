package httpapi

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/portico-run/portico/internal/peer"
)

// wholeBody is where the JSON body of a request is kept as it came.
const wholeBody = "body"

// handOn lets the process that holds what a request is about answer it. One that was
// handed on already is not handed on again.
func (a *API) handOn(c *gin.Context, e *peer.Elsewhere) error {
	ctx := c.Request.Context()
	if a.deps.Peers == nil || peer.Forwarded(ctx) || c.Writer.Written() {
		return peer.ErrUnreachable.With(e)
	}
	body, whole := c.Value(wholeBody).([]byte)
	if !whole && c.Request.ContentLength != 0 {
		return peer.ErrUnreachable.With(errors.New("the body of the request was not kept"))
	}
	err := a.forward(c, body, e.Node)
	if errors.Is(err, peer.ErrGone) {
		return e.Gone(ctx)
	}
	return err
}

// forward lets another process answer a request, under the same id.
func (a *API) forward(c *gin.Context, body []byte, to string) error {
	ctx := c.Request.Context()
	r := c.Request.Clone(ctx)
	r.Header.Set(HeaderTrace, TraceID(ctx))
	return a.deps.Peers.Forward(writer{c.Writer}, r, body, to)
}

// writer takes the headers of another process's answer in the place of its own.
type writer struct{ gin.ResponseWriter }

// Unwrap lets a stream leave at once.
func (w writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

package httpapi

import (
	"errors"

	"github.com/gin-gonic/gin"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/peer"
)

// Begins says whether a request begins a program, and whether that will pause.
type Begins func(body []byte) (begins, pauses bool)

// Always is Begins of operations that begin a program each time, which does not pause.
func Always([]byte) (begins, pauses bool) { return true, false }

var errSpilled = errs.New(errs.Unavailable, "The answer was lost between two server processes.").Do("Find out what the program has done before you run it again.")

// spill lets another process begin a program where the queue of this one is full. One
// that was handed on is not handed on again, and where the other one takes nothing, this
// one answers.
func (a *API) spill(c *gin.Context) {
	op, _ := a.route(c)
	body, whole := c.Value(wholeBody).([]byte)
	ctx := c.Request.Context()
	if op.Begins == nil || !whole || peer.Forwarded(ctx) {
		return
	}
	begins, pauses := op.Begins(body)
	if !begins {
		return
	}
	node := a.deps.Spill(ctx, pauses)
	if node == "" {
		return
	}
	switch err := a.forward(c, body, node); {
	case err == nil:
		c.Abort()
	case ctx.Err() != nil, errors.Is(err, peer.ErrBroken), errors.Is(err, peer.ErrLost):
		a.fail(c, errSpilled.With(err))
	}
}

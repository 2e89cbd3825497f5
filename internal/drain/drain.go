// Package drain lets a process end without ending what it works on: what comes after
// it began to end starts nothing new, and what came before goes on.
package drain

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/internal/errs"
)

// ErrDraining refuses new work.
var ErrDraining = errs.New(errs.Unavailable, "This server process is about to end, and begins nothing new.").
	Do("Send the same request again after Retry-After: another process answers it, or this one when it is back.").After(2 * time.Second).AsPlanned()

// Door is where requests come in. The zero value is open.
type Door struct{ closed atomic.Bool }

// Close has everything that comes from now on begin nothing new.
func (d *Door) Close() { d.closed.Store(true) }

// Closed reports whether what comes begins nothing new.
func (d *Door) Closed() bool { return d.closed.Load() }

type lateKey struct{}

// Enter is the context of a request that comes now.
func (d *Door) Enter(ctx context.Context) context.Context {
	if !d.Closed() {
		return ctx
	}
	return context.WithValue(ctx, lateKey{}, true)
}

// Admit returns ErrDraining for a request that came when the door was closed, and for
// all that is done for it.
func Admit(ctx context.Context) error {
	if late, _ := ctx.Value(lateKey{}).(bool); late {
		return ErrDraining
	}
	return nil
}

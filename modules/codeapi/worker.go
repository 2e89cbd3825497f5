package codeapi

import (
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
)

// headerWorker names the machine that a host chose for the caller's code.
const headerWorker = "X-LibreChat-Code-Worker-ID"

// ownWorker refuses a machine that the caller's signed token does not name, so
// that nobody asks for that of somebody else. The message is the one by which
// clients know not to try again.
func ownWorker(r *http.Request, who actor.Actor) error {
	if asked := r.Header.Get(headerWorker); asked != "" && asked != who.Worker {
		return errs.New(errs.Forbidden, "bridge_worker_mismatch").Do("The worker must be the code_worker_id of the signed token.")
	}
	return nil
}

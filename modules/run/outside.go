package run

import (
	"math"
	"time"

	"github.com/portico-run/portico/internal/errs"
)

// Outside is the owner, in leases, of what a service beside this server
// executes. No process renews such a lease: it ends at the moment that was set
// when it was registered.
const Outside = "outside"

// maxOutside is how many runs of one user may be executed outside at once.
const maxOutside = 100

// OutsideParams says which run a service executes.
type OutsideParams struct {
	ResultID string // empty makes a new id
	Version  int
	Title    string
	CanvasID string // made for the user where it is unknown
	Toolsets []string
	// Until is when the run fails unless it was finished.
	Until time.Time
}

// The failures of registered runs.
var (
	// ErrOurs is returned when a service claims a run of this server's own.
	ErrOurs = errs.New(errs.Conflict, "This server executes the run itself.").
		Do("Register another resultId or version; POST /v1/action/abort ends a run of the server's own.")
	errManyOutside = errs.Newf(errs.RateLimited, "At most %d runs of a user are executed outside at once.", maxOutside).
			Do("Finish runs with POST /v1/action/finish; those that nobody finishes end when their time is over.").After(time.Minute)
	errOtherCanvas = errs.New(errs.Conflict, "The run was registered with another canvas.").Do("Leave canvasId out, or send the one of before.")
)

func (p OutsideParams) validate() error {
	if err := (CreateParams{ResultID: p.ResultID, Title: p.Title, Toolsets: p.Toolsets}).validate(); err != nil {
		return err
	}
	if p.Version < 0 || p.Version > math.MaxInt32 || (p.ResultID == "" && p.Version != 0) {
		return errs.New(errs.Invalid, "version must be a whole number from 0, and belongs to a resultId.")
	}
	if p.CanvasID != "" && (len(p.CanvasID) > maxID || !idPattern.MatchString(p.CanvasID)) {
		return errs.Newf(errs.Invalid, "canvasId must be 1 to %d letters, digits, - or _.", maxID)
	}
	return nil
}

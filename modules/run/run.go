package run

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
)

// Status says how far a run is: docs/wire/refly.md#runs.
type Status string

// The states of a run. The last three are final.
const (
	Waiting Status = "waiting"
	Running Status = "running"
	Done    Status = "finish"
	Failed  Status = "error"
	Aborted Status = "aborted"
)

// Final reports whether nothing happens in the run any more.
func (s Status) Final() bool { return s == Done || s == Failed || s == Aborted }

// Run is one execution of a program or an agent.
type Run struct {
	ResultID string
	Version  int // 0 for the first execution under the result id
	UID      string
	Type     string
	Title    string
	CanvasID string // empty when the run belongs to no canvas
	Input    string // JSON text; may be empty
	Toolsets []string
	Status   Status
	// PTCEnabled is written when the run ends and is false until then.
	PTCEnabled bool
	// Model is the language model that answered, written when the run ends.
	Model     string
	Errors    []string
	ErrorType string // systemError, userAbort, or empty
	// Warnings and Handoff are as Finish has them.
	Warnings []string
	Handoff  *Handoff
	// ExpiresAt is set while a service beside this server executes the run: when
	// it fails unless it was finished.
	ExpiresAt time.Time
	// Asked is left out of lists.
	Asked Asked
	// Seq is the number of the newest event.
	Seq       int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Ref names one version of a run, and the user whose it is.
type Ref struct {
	UID      string
	ResultID string
	Version  int
}

// Ref names the run.
func (r Run) Ref() Ref { return Ref{UID: r.UID, ResultID: r.ResultID, Version: r.Version} }

// NoResult is the result id of calls outside any run: docs/wire/refly.md#records-of-calls.
const NoResult = "non-result-id"

// Filter narrows a list of runs; what is empty does not.
type Filter struct {
	Status   Status
	CanvasID string
	Toolset  string // of which a call was made
	Text     string // in the title, whatever its case
	// From the one moment, before the other, the run was created.
	From, Until time.Time
}

// Limits of what a caller may name.
const (
	maxID       = 64
	maxTitle    = 500 // characters
	maxType     = 32
	maxInput    = 1 << 20
	maxToolsets = 200
	defaultType = "skill"
)

// The failures of this module.
var (
	// ErrMissing is returned for an absent run and for another user's alike.
	ErrMissing = errs.New(errs.ResultMissing, "There is no such run.").
			Do("Check the result id and the version; a run is visible only to the user who started it.")
	// ErrCanvasMissing is returned for an absent canvas and for another
	// user's alike.
	ErrCanvasMissing = errs.New(errs.CanvasMissing, "There is no such canvas.").
				Do("Create one with POST /v1/canvas/create, or leave the canvas out.")
	// ErrEnded is returned when something is to happen in a run that is over.
	ErrEnded = errs.New(errs.Conflict, "The run has ended.").
			Do("Start a new run, or a new version of this one.")
	errRaced = errs.New(errs.Conflict, "Another version of the run is being created.").Do("Try again.")
)

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// CreateParams says which run to create. Every field is optional.
type CreateParams struct {
	// ResultID of an own run makes its next version; empty makes a new id.
	ResultID string
	Title    string
	CanvasID string
	Type     string
	Input    json.RawMessage
	Toolsets []string // keys
	// History are the result ids of the runs that it continues, in order.
	History []string
	Asked   Asked
	// Also, if it is there, does more in the transaction that records the run.
	Also func(ctx context.Context, tx database.Tx, r Ref) error
}

// Asked is what a frontend says of a run for its own use. It is kept and given
// back, and changes nothing.
type Asked struct {
	Locale      string
	ModelItemID string // the frontend's name of the model that was chosen
	// JSON texts; may be empty.
	Context, TplConfig, RuntimeConfig json.RawMessage
}

func (a Asked) validate() error {
	if err := text("locale", a.Locale, maxID); err != nil {
		return err
	}
	if err := text("modelItemId", a.ModelItemID, maxID); err != nil {
		return err
	}
	for name, value := range map[string]json.RawMessage{"context": a.Context, "tplConfig": a.TplConfig, "runtimeConfig": a.RuntimeConfig} {
		if err := jsonText(name, value); err != nil {
			return err
		}
	}
	return nil
}

// jsonText refuses what is too long, and what is no JSON.
func jsonText(field string, value json.RawMessage) error {
	if len(value) > maxInput {
		return errs.Newf(errs.TooLarge, "%s must not be larger than %d bytes.", field, maxInput)
	}
	if len(value) > 0 && (!json.Valid(value) || !utf8.Valid(value)) {
		return errs.Newf(errs.Invalid, "%s must be JSON in UTF-8.", field)
	}
	return nil
}

func (p CreateParams) validate() error {
	if p.ResultID != "" && (len(p.ResultID) > maxID || p.ResultID == NoResult || !idPattern.MatchString(p.ResultID)) {
		return errs.Newf(errs.Invalid, "resultId must be 1 to %d letters, digits, - or _, and not %q.", maxID, NoResult)
	}
	if err := text("title", p.Title, maxTitle); err != nil {
		return err
	}
	if err := text("type", p.Type, maxType); err != nil {
		return err
	}
	if err := jsonText("input", p.Input); err != nil {
		return err
	}
	if err := p.Asked.validate(); err != nil {
		return err
	}
	if len(p.Toolsets) > maxToolsets {
		return errs.Newf(errs.Invalid, "toolsets must not name more than %d toolsets.", maxToolsets)
	}
	if slices.ContainsFunc(p.Toolsets, func(k string) bool { return text("toolsets", k, maxID) != nil }) {
		return errs.Newf(errs.Invalid, "toolsets must hold keys of at most %d characters.", maxID)
	}
	return nil
}

// text refuses what one of the databases cannot store, and what is too long.
func text(field, value string, limit int) error {
	if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return errs.Newf(errs.Invalid, "%s must be valid UTF-8 without NUL.", field)
	}
	if utf8.RuneCountInString(value) > limit {
		return errs.Newf(errs.Invalid, "%s must not be longer than %d characters.", field, limit)
	}
	return nil
}

// Finish says how a run ended.
type Finish struct {
	Status     Status // a final one
	PTCEnabled bool
	Errors     []string
	// Model is the language model that answered; empty for runs without one.
	Model string
	// Warnings are what the run did without, for its user.
	Warnings []string
	// Handoff is set where the run handed its work over.
	Handoff *Handoff
}

// Handoff is work that a run handed over.
type Handoff struct {
	Agent   string `json:"agent" doc:"Who is to go on, as the model named them"`
	Summary string `json:"summary" doc:"What they need to know"`
}

// errorType says who ended the run; nil for a run that ended well.
func (f Finish) errorType() *string {
	switch f.Status {
	case Failed:
		return new("systemError")
	case Aborted:
		return new("userAbort")
	default:
		return nil
	}
}

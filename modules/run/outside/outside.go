package outside

import (
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// Registration is a run, and a program in it, that a service beside this server
// executes.
type Registration struct {
	Run run.OutsideParams
	// Time is how long it may take.
	Time time.Duration
	// CallID is the service's own id of the program; empty makes one.
	CallID string
	// Program is nil to register the run only. Without toolsets of its own it
	// has those of the run; without a language it is Python.
	Program *record.ProgramInput
}

// Ending says how such a program ended, or, without a CallID, its run with all
// of its programs.
type Ending struct {
	ResultID string
	Version  int
	CallID   string
	Status   run.Status      // a final one
	Output   json.RawMessage // of the program; any JSON, or nil
	Error    string
}

const (
	// maxPrograms is how many programs of one user may be executed outside at once.
	maxPrograms = 200
	maxEndError = 10_000 // bytes
)

// The failures of registered programs.
var (
	ErrCallTaken    = errs.New(errs.Conflict, "This toolCallId is taken.").Do("Send another one, such as a new UUID.")
	ErrCallEnded    = errs.New(errs.Conflict, "The program has ended.").Do("Register another one, with an id of its own.")
	errOtherProgram = errs.New(errs.Conflict, "This toolCallId was registered for another program.").Do("Repeat the request as it was, or send another id.")
	errOurProgram   = errs.New(errs.Conflict, "This server executes the program itself.").Do("It ends by itself, or with its run.")
	errManyPrograms = errs.Newf(errs.RateLimited, "At most %d programs of a user are executed outside at once.", maxPrograms).
			Do("Finish programs with POST /v1/action/finish; those that nobody finishes end when their time is over.").After(time.Minute)
)

// outsideID is the form of an id that a service made.
var outsideID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9:_.-]{0,127}$`)

func (r Registration) validate() error {
	if r.CallID == "" {
		return nil
	}
	if origin, ours := ids.OriginOf(r.CallID); !outsideID.MatchString(r.CallID) || (ours && origin != ids.Agent) {
		return errs.New(errs.Invalid, "toolCallId is too long, has characters that are not allowed, or is the id of a child call.").
			Do("Send 1 to 128 letters, digits and :_.- that begin with a letter or digit, such as a UUID.")
	}
	return nil
}

func (e Ending) validate() error {
	switch {
	case !e.Status.Final():
		return errs.New(errs.Invalid, "status must be finish, error or aborted.")
	case e.Version < 0 || e.Version > math.MaxInt32:
		return errs.New(errs.Invalid, "version must be a whole number from 0.")
	case e.CallID == "" && len(e.Output) > 0:
		return errs.New(errs.Invalid, "output is that of a program.").Do("Send its toolCallId, or leave output out.")
	case e.Status == run.Done && e.Error != "":
		return errs.New(errs.Invalid, "What finished well has no error.").Do("Send status error, or leave error out.")
	case len(e.Error) > maxEndError || !utf8.ValidString(e.Error) || strings.ContainsRune(e.Error, 0):
		return errs.Newf(errs.Invalid, "error must be UTF-8 without NUL, of at most %d bytes.", maxEndError)
	case len(e.Output) > 0 && (!json.Valid(e.Output) || !utf8.Valid(e.Output)):
		return errs.New(errs.Invalid, "output must be JSON in UTF-8.")
	}
	return nil
}

// reason is why it did not finish well; empty where it did.
func (e Ending) reason() string {
	switch {
	case e.Error != "" || e.Status == run.Done:
		return e.Error
	case e.Status == run.Aborted:
		return "It was aborted."
	}
	return "It failed; the service that executed it did not say why."
}

func (e Ending) answer() record.Answer {
	if e.Status == run.Done {
		return record.Answer{Status: record.Success, Data: e.Output}
	}
	return record.Answer{Status: record.Error, Error: e.reason(), Data: e.Output}
}

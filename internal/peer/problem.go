package peer

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/errs"
)

// problem is an error on its way between two processes. Its private cause stays
// where it is.
type problem struct {
	Code       errs.Code     `json:"code"`
	Message    string        `json:"message"`
	Detail     string        `json:"detail,omitempty"`
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	URL        string        `json:"url,omitempty"`
	Planned    bool          `json:"planned,omitempty"`
}

// Headers between two processes.
const (
	headerToken   = "Portico-Peer-Token"   //nolint:gosec // the name of a header
	headerProblem = "Portico-Peer-Problem" // why there is no answer
	headerMethod  = "Portico-Peer-Method"  // these five are of a forwarded request
	headerRequest = "Portico-Peer-Request" // its id
	headerTarget  = "Portico-Peer-Target"
	headerHost    = "Portico-Peer-Host"
	headerClient  = "Portico-Peer-Client" // the address that it came from
	prefix        = "Portico-Peer-"
)

// Kinds of problems.
const (
	none      = "none"       // it is an answer
	asked     = "asked"      // the answer to what was asked is an error
	otherNode = "other-node" // another process has the address now
	refused   = "refused"    // the token does not count, or the operation is not known
)

// writeProblem sends an error. One without a code is the fault of this process.
func writeProblem(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		e = errs.New(errs.Internal, "An unknown error has occurred.").Do("Try again later; if it stays, give the operator the time of the request.")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(headerProblem, asked)
	w.WriteHeader(e.Code.Status())
	_ = json.NewEncoder(w).Encode(problem{e.Code, e.Message, e.Detail, e.RetryAfter, e.URL, e.Planned}) // a peer that is gone
}

// readProblem returns the error that another process sent.
func readProblem(r *http.Response) error {
	var p problem
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxProblem)).Decode(&p); err != nil || p.Code == "" {
		return ErrBroken.With(err)
	}
	return &errs.Error{Code: p.Code, Message: p.Message, Detail: p.Detail, RetryAfter: p.RetryAfter, URL: p.URL, Planned: p.Planned}
}

const maxProblem = 1 << 20

// Package run keeps runs: what a user started, how it stands, and the journal
// of events that everybody who watches it reads.
package run

import (
	"encoding/json"
	"regexp"
	"time"

	"github.com/portico-run/portico/modules/internal/errs"
)

// Status is the state of a run.
type Status string

// A run goes from waiting to running to one of the three ends.
const (
	Waiting  Status = "waiting"
	Running  Status = "running"
	Finished Status = "finish"
	Error    Status = "error"
	Aborted  Status = "aborted"
)

// Ended reports whether nothing more can happen in a run.
func (s Status) Ended() bool { return s == Finished || s == Error || s == Aborted }

// Run is one version of one run.
type Run struct {
	PK         int64
	ResultID   string
	Version    int
	UID        string
	Type       string
	Title      string
	CanvasID   string
	Input      json.RawMessage
	Toolsets   []string
	Status     Status
	Errors     []string
	PTCEnabled bool
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// EventType names a kind of event. The names are those of the wire contract.
type EventType string

// The events there are.
const (
	Start         EventType = "start"
	ToolCallStart EventType = "tool_call_start"
	ToolCallEnd   EventType = "tool_call_end"
	ToolCallError EventType = "tool_call_error"
	Log           EventType = "log"
	End           EventType = "end"
)

// Event is an entry of a run's journal. Seq counts from one, without gaps, in
// the order of commits.
type Event struct {
	Seq       int64
	Type      EventType
	CallID    string
	Payload   json.RawMessage
	CreatedAt time.Time
}

// NewEvent is an event to append. Payload is encoded as JSON; nil is the
// empty object.
type NewEvent struct {
	Type    EventType
	CallID  string
	Payload any
}

// LogLine is the payload of a log event: one line a program wrote.
type LogLine struct {
	Level   string `json:"level"`  // info for stdout, error for stderr
	Stream  string `json:"stream"` // stdout or stderr
	Content string `json:"content"`
}

// CreateParams describes a run to begin.
type CreateParams struct {
	// ResultID continues a run of the caller's as a new version; empty begins
	// a new one.
	ResultID string
	CanvasID string // empty: no canvas
	Type     string
	Title    string
	Input    any // encoded as JSON
	Toolsets []string
}

// Finish is how a run ended.
type Finish struct {
	Status     Status
	PTCEnabled bool
	Errors     []string
}

// Canvas is a place that runs and files belong to.
type Canvas struct {
	PK        int64
	CanvasID  string
	Title     string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Errors of the service.
var (
	ErrMissing       = errs.New(errs.ResultMissing, "There is no such run.").Do("Check resultId and version; a run is visible to its own user only.")
	ErrCanvasMissing = errs.New(errs.CanvasMissing, "There is no such canvas.").Do("Check canvasId, or create a canvas with POST /v1/canvas/create.")
	ErrEnded         = errs.New(errs.Conflict, "The run has ended.").Do("Start another run.")
)

// MaxTitle is the longest title, in bytes.
const MaxTitle = 1000

var idForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Topic is what readers of a run's journal wait for.
func Topic(resultID string) string { return "run:" + resultID }

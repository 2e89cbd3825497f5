package tool

import (
	"time"

	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/toolset"
)

// Went is how a call went, in a word of a short list.
type Went string

// How calls go. What upstreams call their own failures is Failed: they have any
// number of words.
const (
	Succeeded   Went = "success"
	Failed      Went = "failure"
	Late        Went = "timeout"
	Unavailable Went = "unavailable"
	Fault       Went = "fault" // of this server
	Left        Went = "left"  // waits for a person, for another process
)

// Functions is the kind of the server's own functions, and Unknown that of toolsets
// that there are not.
const (
	Functions toolset.Kind = "function"
	Unknown   toolset.Kind = "unknown"
)

func went(a record.Answer, err error) Went {
	switch {
	case err != nil:
		return Left
	case a.Status == record.Success:
		return Succeeded
	case a.ErrorCode == CodeTimeout:
		return Late
	case a.ErrorCode == CodeInternal:
		return Fault
	case a.ErrorCode == upstream.CodeUnavailable:
		return Unavailable
	}
	return Failed
}

// observe tells of a call that ended. Its kind is empty where it was refused
// before that was known.
func (s *Service) observe(kind toolset.Kind, a record.Answer, err error, took time.Duration) {
	if s.settings.Observe == nil {
		return
	}
	if kind == "" {
		kind = Unknown
	}
	s.settings.Observe(kind, went(a, err), took)
}

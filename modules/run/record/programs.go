package record

import (
	"time"

	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/wake"
)

// program is a call that makes calls, without what it was asked and answered,
// which may be long.
type program struct {
	Call
	grant    Grant
	readable bool // it is known what it was given
}

// ownCall is a call of one user.
type ownCall struct{ uid, callID string }

const (
	// programsLife is how long a process that is not told of the end of a program
	// goes on to know it as executing.
	programsLife = time.Second
	maxPrograms  = 2000
	// endedProgram is the kind of the topics of programs that have ended.
	endedProgram = "program-ended"
)

// newPrograms returns the programs that made calls a moment ago; without a hub,
// none are kept.
func newPrograms(hub *wake.Hub, now func() time.Time) *cached.Cache[ownCall, program] {
	s := cached.Settings{Max: maxPrograms, Age: programsLife, Now: now}
	if hub == nil {
		s.Age = 0
	}
	programs := cached.New[ownCall, program](s)
	if hub != nil {
		hub.Follow(endedProgram, func(callID string) {
			programs.Drop(func(of ownCall, _ program) bool { return callID == "" || of.callID == callID })
		})
	}
	return programs
}

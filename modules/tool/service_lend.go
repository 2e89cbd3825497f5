package tool

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/portico-run/portico/modules/run/record"
)

// Function is a tool of the server's own that one program may call. It is
// called like a tool of the toolset ptc.Own, recorded as the program's child,
// and costs nothing.
type Function struct {
	Name        string
	Description string
	Schema      json.RawMessage // of the arguments, an object
	Run         func(ctx context.Context, arguments json.RawMessage) record.Answer
}

// Lend lets a program call functions until TakeBack.
func (s *Service) Lend(callID string, functions []Function) { s.lent.lend(callID, functions) }

// TakeBack ends what Lend began.
func (s *Service) TakeBack(callID string) { s.lent.drop(callID) }

// lent are the functions of the programs of this process, by their call ids.
type lent struct {
	mu        sync.Mutex
	functions map[string][]Function
}

// lend lets a program call functions until it is dropped.
func (l *lent) lend(callID string, functions []Function) {
	if len(functions) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.functions == nil {
		l.functions = map[string][]Function{}
	}
	l.functions[callID] = functions
}

func (l *lent) drop(callID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.functions, callID)
}

// to is what a program was lent.
func (l *lent) to(callID string) []Function {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.functions[callID]
}

// find is the function of a name that a program was lent.
func (l *lent) find(callID, name string) (Function, bool) {
	functions := l.to(callID)
	i := slices.IndexFunc(functions, func(f Function) bool { return f.Name == name })
	if i < 0 {
		return Function{}, false
	}
	return functions[i], true
}

// performLent executes a call of a function that the calling program was lent.
func (s *Service) performLent(ctx context.Context, c record.Call, f Function, arguments map[string]any) record.Answer {
	if err := s.fits(arguments, f.Schema); err != nil {
		return s.refused(ctx, c, err)
	}
	given, err := json.Marshal(arguments)
	if err != nil {
		return s.refused(ctx, c, err)
	}
	answer := f.Run(ctx, given)
	if answer.Status != record.Success && late(ctx) {
		return s.timedOut()
	}
	return answer
}

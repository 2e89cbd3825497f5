package execution

import "time"

// Rows are the row structs, for the check against the live schema.
func Rows() []any { return []any{executionRow{}} }

// Held is how many programs a service keeps, and how many timers for those that
// have ended.
func Held(s *Service) (programs, timers int) {
	s.paused.mu.Lock()
	defer s.paused.mu.Unlock()
	return len(s.paused.programs), len(s.paused.ended)
}

// KeepFor bounds how long the files of a program are stored.
func KeepFor(s *Service, d time.Duration) { s.keeping = d }

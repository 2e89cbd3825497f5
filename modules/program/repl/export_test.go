package repl

// Offers reports whether code is offered to an interpreter, or runs in it.
func (s *Service) Offers(uid, name string) bool {
	s.mu.Lock()
	x := s.sessions[place{uid, name}]
	s.mu.Unlock()
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.gateway != nil
}

// Known is of how many files of a resting interpreter it is known what they are.
func (s *Service) Known(uid, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions[place{uid, name}].known)
}

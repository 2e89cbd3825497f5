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

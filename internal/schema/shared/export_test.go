package shared

// Size is how many bytes a set remembers.
func (s *Set) Size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

package program

import "time"

// KeepFor returns the service with another bound on how long files are stored.
func (s *Service) KeepFor(d time.Duration) *Service {
	other := *s
	other.keeping = d
	return &other
}

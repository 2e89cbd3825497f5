package node

import "context"

// Beat is one sign of life, as it is given in the background.
func (s *Service) Beat(ctx context.Context) { s.beat(ctx) }

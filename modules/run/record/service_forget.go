package record

import (
	"context"
	"fmt"

	"github.com/portico-run/portico/internal/actor"
)

// ForgetOutputs deletes the whole outputs of calls of the actor's that are kept
// as objects. The records of the calls stay. A call without one is no error.
func (s *Service) ForgetOutputs(ctx context.Context, a actor.Actor, callIDs []string) error {
	for _, id := range callIDs {
		if err := s.objects.Delete(ctx, OutputKey(a.UID, id)); err != nil {
			return fmt.Errorf("delete the output of %s: %w", id, err)
		}
	}
	return nil
}

package dialogue

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/peer"
)

// Peers are the other processes.
type Peers interface {
	// Others asks all of them that live at once.
	Others(ctx context.Context, op string, who actor.Actor, in any, each func(answer json.RawMessage)) error
}

// WaitsOp is the name under which other processes are asked whether calls wait there.
// The answer is their id, or empty.
const WaitsOp = "conversation.waits"

// Waits implements Dialogues.
func (s *Service) Waits(ctx context.Context, a actor.Actor, callIDs []string) (bool, error) {
	if len(callIDs) == 0 || s.WaitsHere(a, callIDs) {
		return len(callIDs) > 0, nil
	}
	if s.deps.Settings.Peers == nil || peer.Forwarded(ctx) {
		return false, nil
	}
	var node string
	err := s.deps.Settings.Peers.Others(ctx, WaitsOp, a, callIDs, func(answer json.RawMessage) {
		var one string
		if json.Unmarshal(answer, &one) == nil && one != "" {
			node = one
		}
	})
	if node == "" {
		return false, err
	}
	return false, &peer.Elsewhere{Node: node, Gone: func(context.Context) error {
		return ErrCallGone.Do("The server process that held the conversation has ended. Begin the conversation anew.")
	}}
}

// WaitsHere is Waits for the conversations of this process. A program stands for the
// calls that it waits for.
func (s *Service) WaitsHere(a actor.Actor, ids []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(ids, func(id string) bool { return s.pauses[key(a.UID, id)] != nil }) {
		return true
	}
	for c := range s.talks {
		if c.who.UID != a.UID || c.works {
			continue
		}
		for _, one := range c.calls {
			if one.program != nil && slices.Contains(ids, one.program.ID) {
				return true
			}
		}
	}
	return false
}

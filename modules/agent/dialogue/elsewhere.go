package dialogue

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
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
	return false, s.elsewhere(ctx, a, callIDs, ErrCallGone.Do("The server process that held the conversation has ended. Begin the conversation anew."))
}

// elsewhere is a peer.Elsewhere where another process waits for one of some ids; its
// answer is another one where that process is gone.
func (s *Service) elsewhere(ctx context.Context, a actor.Actor, ids []string, gone error) error {
	if s.deps.Settings.Peers == nil || peer.Forwarded(ctx) {
		return nil
	}
	var node string
	err := s.deps.Settings.Peers.Others(ctx, WaitsOp, a, ids, func(answer json.RawMessage) {
		var one string
		if json.Unmarshal(answer, &one) == nil && one != "" {
			node = one
		}
	})
	if node == "" {
		return err
	}
	return &peer.Elsewhere{Node: node, Gone: func(context.Context) error { return gone }}
}

// sentAgain is the id of a request that a client says it sent before.
func sentAgain(digest [32]byte) string { return requestPrefix + hex.EncodeToString(digest[:]) }

const requestPrefix = "request:"

// worksElsewhere is a peer.Elsewhere where another process works, or worked, on the same
// request, whose answer the client has lost.
func (s *Service) worksElsewhere(ctx context.Context, a actor.Actor, req Request) error {
	if req.Sent != SentAgain || req.Digest == ([32]byte{}) {
		return nil
	}
	return s.elsewhere(ctx, a, []string{sentAgain(req.Digest)},
		errs.New(errs.Unavailable, "The server process that worked on this request has ended.").Do("Find out what its programs have done before you send it again."))
}

// WaitsHere is Waits for the conversations of this process. A program stands for the
// calls that it waits for, and a request for its answer.
func (s *Service) WaitsHere(a actor.Actor, ids []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(ids, func(id string) bool { return s.pauses[key(a.UID, id)] != nil }) {
		return true
	}
	for _, id := range ids {
		if digest, is := strings.CutPrefix(id, requestPrefix); is {
			if t := s.turns[key(a.UID, digest)]; t != nil && t.answers(SentAgain) {
				return true
			}
		}
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

// over reports whether the program that waits for the client has ended.
func (c *conversation) over() bool {
	if len(c.answer.queue) == 0 {
		return false
	}
	p := c.answer.queue[0]
	return p.replies == nil && p.token != "" && !c.service.deps.Programs.Executions.Waits(c.who, p.token)
}

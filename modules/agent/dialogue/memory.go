package dialogue

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model"
)

// What is remembered of a user's requests, so that one that is sent again gets the
// answer that was lost.
const (
	rememberFor   = 5 * time.Minute
	rememberTurns = 64
	rememberBytes = 32 << 20
)

// Conversations that are worked on, or wait for their clients, have so many bytes at
// most; those of one user a share of that.
const (
	mostBytes = 512 << 20
	userShare = 4
)

// user is what one user has in this process.
type user struct {
	busy  int      // requests that are worked on
	known []string // keys of turns, the oldest first
	bytes int64    // of conversations
}

var errManyTalks = errs.New(errs.RateLimited, "Your conversations that wait, or are worked on, hold too much.").
	Do("Continue those that wait for results of tools, or wait until they have expired.").After(time.Second)

// reserve takes the memory of a conversation.
func (s *Service) reserve(c *conversation) error {
	u := s.of(c.who.UID)
	more := c.bytes() - c.reserved
	if more > 0 && (s.bytes+more > s.most || u.bytes+more > s.most/userShare) {
		s.tidy(c.who.UID)
		return errManyTalks
	}
	s.bytes, u.bytes, c.reserved = s.bytes+more, u.bytes+more, c.reserved+more
	return nil
}

// free lets go of what a conversation holds. What it was asked is known for a while.
func (s *Service) free(c *conversation) {
	s.bytes -= c.reserved
	s.of(c.who.UID).bytes -= c.reserved
	c.reserved, c.items, c.more, c.req, c.programs, c.fitted = 0, nil, nil, Request{}, described{}, nil
	s.tidy(c.who.UID)
}

// of is what a user has.
func (s *Service) of(uid string) *user {
	u := s.users[uid]
	if u == nil {
		u = &user{}
		s.users[uid] = u
	}
	return u
}

// bytes is about how much memory a conversation takes.
func (c *conversation) bytes() int64 {
	n := len(c.req.System) + len(c.programs.text)
	for _, item := range slices.Concat(c.items, c.more) {
		n += len(item)
	}
	for _, t := range c.req.Tools {
		n += 2 * (len(t.Schema) + len(t.Description) + len(t.Output))
	}
	return int64(n)
}

// pause is what one answer asked a client for: results of calls, and decisions.
type pause struct {
	talk      *conversation
	direct    []string // ids of the model's own calls
	calls     []string // those of calls of programs
	approvals []string
	digest    string       // of the results that came; empty before
	more      []model.Item // the words that came with them
	turn      *turn        // that went on with them
}

// added are the words of a continuation beyond those that came before with the same
// results. ok is false where it has other words in place of those.
func (p *pause) added(c *Continue) (words []model.Item, ok bool) {
	n := len(p.more)
	same := func(a, b model.Item) bool { return bytes.Equal(a, b) }
	if len(c.More) < n || !slices.EqualFunc(c.More[:n], p.more, same) {
		return nil, false
	}
	return c.More[n:], true
}

func key(uid, text string) string { return uid + "\x00" + text }

// find returns the turn of a request of the same content; nil for none.
func (s *Service) find(uid string, digest [32]byte) *turn {
	return s.turns[key(uid, hex.EncodeToString(digest[:]))]
}

// enter counts a turn in, unless the user has too many.
func (s *Service) enter(uid string) error {
	u := s.of(uid)
	if u.busy >= s.deps.Settings.Busy {
		return errs.New(errs.RateLimited, "Too many of your requests are worked on.").Do("Wait for some of them to end.").After(time.Second)
	}
	u.busy++
	return nil
}

// leave counts a turn out, and forgets the oldest ones of a user who has too much, but
// none that is worked on: its request may come again, and Stop ends it.
func (s *Service) leave(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[uid]
	u.busy--
	var held int64
	for _, k := range slices.Backward(u.known) {
		if t := s.turns[k]; t != nil {
			held += t.bytes()
		}
	}
	for _, k := range slices.Clone(u.known) {
		if len(u.known) <= rememberTurns && held <= rememberBytes {
			break
		}
		if t := s.turns[k]; t != nil && t.ended() {
			held -= t.bytes()
			s.drop(uid, k)
		}
	}
	s.tidy(uid)
}

// remember keeps a turn for a client that sends its request again.
func (s *Service) remember(uid string, digest [32]byte, t *turn) {
	k := key(uid, hex.EncodeToString(digest[:]))
	if digest == ([32]byte{}) { // nobody can ask for it again
		k = key(uid, fmt.Sprintf("%p", t))
	}
	s.drop(uid, k)
	s.turns[k] = t
	s.users[uid].known = append(s.users[uid].known, k)
	timer := time.AfterFunc(s.deps.Settings.Wall+rememberFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.turns[k] == t {
			s.drop(uid, k)
			s.tidy(uid)
		}
	})
	t.forget = func() { timer.Stop() }
}

func (s *Service) drop(uid, k string) {
	t := s.turns[k]
	if t == nil {
		return
	}
	t.forget()
	delete(s.turns, k)
	u := s.users[uid]
	u.known = slices.DeleteFunc(u.known, func(other string) bool { return other == k })
}

// tidy forgets a user who has nothing.
func (s *Service) tidy(uid string) {
	if u := s.users[uid]; u != nil && u.busy == 0 && u.bytes == 0 && len(u.known) == 0 {
		delete(s.users, uid)
	}
}

// sameResults tells continuations apart. Clients write JSON anew when they send it
// again.
func sameResults(c *Continue) (string, error) {
	results := slices.Clone(c.Results)
	slices.SortFunc(results, func(a, b Result) int { return bytes.Compare([]byte(a.CallID), []byte(b.CallID)) })
	for i, r := range results {
		if len(r.Value) == 0 {
			continue
		}
		var v any
		if err := json.Unmarshal(r.Value, &v); err != nil {
			return "", errs.Newf(errs.Invalid, "The result of %s is not JSON.", r.CallID)
		}
		text, err := json.Marshal(v)
		if err != nil {
			return "", err
		}
		results[i].Value = text
	}
	text, err := json.Marshal([]any{results, c.Decisions})
	return string(text), err
}

// Working is how many conversations of all users are worked on, or wait for their
// clients.
func (s *Service) Working() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.users {
		n += u.busy
	}
	for c := range s.talks {
		if !c.works && len(c.calls) > 0 {
			n++
		}
	}
	return n
}

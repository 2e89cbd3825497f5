package shared

import (
	"encoding/json"
	"sync"
)

// Set is the schemas that the tools of one toolset share. It remembers what was
// written out lately. It is safe for concurrent use.
type Set struct {
	Schemas Schemas

	mu    sync.Mutex
	whole map[string]json.RawMessage // by the schema as it is stored
	size  int
}

// remembered bounds what a Set remembers, in bytes. It starts afresh when it is
// full, which is cheap: one schema is written out in less than a millisecond.
const remembered = 2 << 20

// Remember is Expand for a schema that is needed again soon. The caller does not
// change what it returns.
func (s *Set) Remember(schema json.RawMessage) (json.RawMessage, error) {
	s.mu.Lock()
	found, ok := s.whole[string(schema)]
	s.mu.Unlock()
	if ok {
		return found, nil
	}
	whole, err := s.Schemas.Expand(nil, schema)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	size := len(schema) + len(whole)
	if s.whole == nil || s.size+size > remembered {
		s.whole, s.size = map[string]json.RawMessage{}, 0
	}
	s.whole[string(schema)] = whole
	s.size += size
	return whole, nil
}

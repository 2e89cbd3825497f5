package shared

import (
	"bytes"
	"encoding/json"
	"sync"
)

// Writer writes many schemas of one toolset, those that are the same once.
type Writer struct {
	expander expander
	written  map[string]json.RawMessage
}

// NewWriter returns a writer for schemas that refer to shared ones.
func NewWriter(s Schemas) *Writer {
	return &Writer{expander: expander{schemas: s}, written: map[string]json.RawMessage{}}
}

// Write is Expand. The caller does not change what it returns.
func (w *Writer) Write(schema json.RawMessage) (json.RawMessage, error) {
	if whole, ok := w.written[string(schema)]; ok {
		return whole, nil
	}
	e := &w.expander
	e.out, e.spans, e.within = e.out[:0], e.spans[:0], e.within[:0]
	if err := e.root(schema); err != nil {
		return nil, err
	}
	whole := bytes.Clone(e.out)
	w.written[string(schema)] = whole
	return whole, nil
}

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
	whole, err := NewWriter(s.Schemas).Write(schema)
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

// Package wake tells readers that something they wait for may have changed.
//
// A wake-up carries no state: whoever is woken reads the database. Losing one
// costs latency, never data, because every reader also polls now and then.
package wake

import "sync"

// Hub passes wake-ups on inside this process. The zero value is ready.
type Hub struct {
	mu     sync.Mutex
	topics map[string]map[chan struct{}]struct{}
}

// Subscribe returns a channel that holds a value after the topic was
// published, and a function that ends the subscription. Publications that
// come faster than the reader reads become one.
func (h *Hub) Subscribe(topic string) (woken <-chan struct{}, cancel func()) {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics == nil {
		h.topics = map[string]map[chan struct{}]struct{}{}
	}
	if h.topics[topic] == nil {
		h.topics[topic] = map[chan struct{}]struct{}{}
	}
	h.topics[topic][ch] = struct{}{}
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.topics[topic], ch)
		if len(h.topics[topic]) == 0 {
			delete(h.topics, topic)
		}
	}
}

// Publish wakes the topic's readers. It never blocks.
func (h *Hub) Publish(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.topics[topic] {
		wakeUp(ch)
	}
}

// PublishAll wakes every reader: after a gap in listening, anything may have
// changed.
func (h *Hub) PublishAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, readers := range h.topics {
		for ch := range readers {
			wakeUp(ch)
		}
	}
}

func wakeUp(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // one wake-up is already waiting to be read
	}
}

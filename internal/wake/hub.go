// Package wake tells readers that something they wait for may have changed.
//
// A wake-up carries no state: whoever is woken reads the database. Losing one
// costs latency, never data, because every reader also polls now and then.
package wake

import (
	"strings"
	"sync"
)

// Hub passes wake-ups on inside this process. The zero value is ready.
type Hub struct {
	mu        sync.Mutex
	topics    map[string]map[chan struct{}]struct{}
	followers []follower
}

// follower is told of each topic that begins with its kind.
type follower struct {
	kind    string
	changed func(id string)
}

// Follow calls changed for every topic that Topic made of a kind, with its id,
// before Publish returns and before readers are woken. The id is empty where
// anything of the kind may have changed. changed returns at once and does not
// use the hub. It is for those who forget what they know, and has no end.
func (h *Hub) Follow(kind string, changed func(id string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.followers = append(h.followers, follower{kind, changed})
}

// Topic names a thing of a kind, for those who Follow the kind; an empty id all
// of them. Neither kind nor id has a space.
func Topic(kind, id string) string { return kind + " " + id }

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
	for _, f := range h.followers {
		if id, ok := strings.CutPrefix(topic, Topic(f.kind, "")); ok {
			f.changed(id)
		}
	}
	for ch := range h.topics[topic] {
		wakeUp(ch)
	}
}

// PublishAll wakes every reader: after a gap in listening, anything may have
// changed.
func (h *Hub) PublishAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.followers {
		f.changed("")
	}
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

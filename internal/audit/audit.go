// Package audit records who changed a credential, a key or a connection, in the
// transaction of the change. It never records the old or the new value.
package audit

import (
	"encoding/json"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
)

// Event is one change.
type Event struct {
	PK        int64
	UID       string // whose thing it is
	KeyID     string // the API key that asked for it; empty for a session, an operator or the server
	Action    string // "key.create", "toolset.update", …
	Subject   string // id or key of the thing
	Detail    map[string]string
	CreatedAt time.Time
}

// Operator owns what belongs to no user, such as shared toolsets.
const Operator = "operator"

// Change is something that an actor did: Action is what, such as "key.create",
// Subject the id or key of the thing. Detail holds names and ids, never a secret.
type Change struct {
	By              actor.Actor
	Action, Subject string
	Detail          map[string]string
}

// Write records a change.
func Write(tx database.Tx, c Change, at time.Time) error {
	if c.Detail == nil {
		c.Detail = map[string]string{}
	}
	text, err := json.Marshal(c.Detail)
	if err != nil {
		return err
	}
	return insert(tx, eventRow{UID: c.By.UID, KeyID: c.By.KeyID, Action: c.Action, Subject: c.Subject, Detail: string(text), CreatedAt: at})
}

// Filter says which changes are meant; what is empty does not count.
type Filter struct {
	UID, Action, Subject string
	From, Until          time.Time // from the one moment, before the other
	// Asked includes what administrators asked; an Action does so, too.
	Asked bool
}

// Ask begins the actions that change nothing: what administrators asked.
const Ask = "ask."

// All returns the changes of all users, newest first, as List does. It is for
// administrators.
func All(h database.Handle, f Filter, w database.Window) ([]Event, *int64, error) {
	rows, total, err := all(h, f, w)
	if err != nil {
		return nil, nil, err
	}
	events, err := eventsOf(rows)
	return events, total, err
}

// List returns the changes to a user's things, newest first. It returns one more
// than the window if there are more, and their number if the window counts.
func List(h database.Handle, uid string, w database.Window) ([]Event, *int64, error) {
	rows, total, err := list(h, uid, w)
	if err != nil {
		return nil, nil, err
	}
	events, err := eventsOf(rows)
	return events, total, err
}

func eventsOf(rows []eventRow) ([]Event, error) {
	events := make([]Event, len(rows))
	for i, r := range rows {
		events[i] = Event{PK: r.PK, UID: r.UID, KeyID: r.KeyID, Action: r.Action, Subject: r.Subject, CreatedAt: r.CreatedAt.UTC()}
		if err := json.Unmarshal([]byte(r.Detail), &events[i].Detail); err != nil {
			return nil, err
		}
	}
	return events, nil
}

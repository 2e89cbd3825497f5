package account

import (
	"time"

	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/account/login"
)

// facts are what was read of those who made requests a moment ago. Whoever
// changes a user or a key tells every process; one that is not told, for
// whatever reason, goes on for factsLife.
type facts struct {
	keys   *cached.Cache[string, Key] // by their hashes, of users who are not disabled
	ids    *cached.Cache[string, Key] // the same by their ids
	users  *cached.Cache[string, User]
	people *cached.Cache[Identity, known]
}

const (
	factsLife = time.Second
	maxFacts  = 10_000
)

// newFacts returns facts that follow what the hub says; without one, none are
// kept.
func newFacts(hub *wake.Hub, now func() time.Time) facts {
	s := cached.Settings{Max: maxFacts, Age: factsLife, Now: now}
	if hub == nil {
		s.Age = 0
	}
	f := facts{keys: cached.New[string, Key](s), ids: cached.New[string, Key](s), users: cached.New[string, User](s), people: cached.New[Identity, known](s)}
	if hub != nil {
		hub.Follow(login.Changed, f.forget)
	}
	return f
}

// forget drops what is known of a user; of all for the empty uid.
func (f facts) forget(uid string) {
	f.keys.Drop(func(_ string, k Key) bool { return uid == "" || k.UID == uid })
	f.ids.Drop(func(_ string, k Key) bool { return uid == "" || k.UID == uid })
	f.users.Drop(func(_ string, u User) bool { return uid == "" || u.UID == uid })
	f.people.Drop(func(_ Identity, k known) bool { return uid == "" || k.Row.UID == uid })
}

// changed tells every process that what it knows of a user is not so any more.
func changed(tx database.Tx, uid string) error { return tx.Notify(wake.Topic(login.Changed, uid)) }

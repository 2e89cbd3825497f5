package run

import (
	"time"

	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/wake"
)

// A run's user never changes; a run may only be deleted, which Deleted tells
// every process. One that is not told goes on for knownLife.
const (
	knownLife = time.Second
	maxKnown  = 10_000
	// deletedRun is the kind of the topics of deleted runs.
	deletedRun = "run-deleted"
)

// newKnown returns the runs that are known to be somebody's; without a hub,
// none are kept.
func newKnown(hub *wake.Hub, now func() time.Time) *cached.Cache[Ref, struct{}] {
	s := cached.Settings{Max: maxKnown, Age: knownLife, Now: now}
	if hub == nil {
		s.Age = 0
	}
	known := cached.New[Ref, struct{}](s)
	if hub != nil {
		hub.Follow(deletedRun, func(resultID string) {
			known.Drop(func(r Ref, _ struct{}) bool { return resultID == "" || r.ResultID == resultID })
		})
	}
	return known
}

// Deleted tells every process that all versions of a run are gone.
func Deleted(tx database.Tx, resultID string) error {
	return tx.Notify(wake.Topic(deletedRun, resultID))
}

// Package run keeps the runs of a user, one execution of some program or
// agent each, with the events that happened in them in commit order.
//
// A run is a row of action_results and is named by its result id and version;
// its events are rows of run_events. Every event gets its number under the
// lock of the run's row, so a reader that has seen number n will never find a
// smaller one that it has not seen.
package run

import (
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/wake"
)

// Deps is what the module needs.
type Deps struct {
	DB *database.DB
	// Now tells the time; nil is the wall clock.
	Now func() time.Time
	// Owner is the id of this process among the nodes: the runs it creates live with it.
	Owner string
	// Wake is the hub that DB tells of its commits. It lets the service know for
	// a second which runs there are; nil asks the database for every call.
	Wake *wake.Hub
}

// Module is the runs with their routes.
type Module struct {
	Service *Service
}

// New builds the module. It starts nothing.
func New(d Deps) *Module {
	known := newKnown(d.Wake, d.Now)
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	return &Module{Service: &Service{db: d.DB, now: d.Now, owner: d.Owner, known: known}}
}

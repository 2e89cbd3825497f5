// Package outside records runs and programs that a service beside this server
// executes: calls that name such a program are its children, as those of the
// server's own programs are. No process keeps them alive; what nobody finishes
// fails at the end of its time.
package outside

import (
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// Deps is what the package needs.
type Deps struct {
	DB      *database.DB
	Runs    *run.Service
	Records *record.Service
	// Now tells the time; nil is the wall clock.
	Now func() time.Time
}

// Service registers and ends what is executed outside. Each method shows and
// changes the actor's own runs only.
type Service struct {
	db      *database.DB
	runs    *run.Service
	records *record.Service
	now     func() time.Time
}

// New makes the service.
func New(d Deps) *Service {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	return &Service{db: d.DB, runs: d.Runs, records: d.Records, now: d.Now}
}

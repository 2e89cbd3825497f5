// Package record keeps the records of tool calls: what was asked for, by whom,
// in which run and program, and what came of it, with the events and the message
// that show a call in its run. A program is a call, too: the parent of those that
// its code makes.
//
// A call that executes is leased by the process that works on it (Work); package
// lease ends what nobody works on any more. Rows are always locked in the order
// call, user, run.
package record

import (
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/run"
)

// Deps is what the module needs.
type Deps struct {
	DB      *database.DB
	Objects objectstore.Store // outputs over the cap
	Runs    *run.Service
	Wake    *wake.Hub
	// Now tells the time; nil is the wall clock.
	Now      func() time.Time
	Settings Settings
}

// Settings are the limits and names of this process.
type Settings struct {
	// Owner is the id of this process among the nodes: its calls live with it.
	Owner string
	// Lease is how long a call that nobody works on is believed to be begun or
	// recorded by its process.
	Lease time.Duration
	// Calls makes the ids of new calls.
	Calls ids.Calls
	// OutputCap is the largest output in bytes that is recorded whole; a larger
	// one is stored as an object and its record shortened.
	OutputCap int
	// Patience is how long the end of a program waits for the calls that it made,
	// and that other processes still execute; their leases end them at the latest.
	// Zero is half a minute.
	Patience time.Duration
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) *Module {
	programs := newPrograms(d.Wake, d.Now)
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	if d.Settings.Patience == 0 {
		d.Settings.Patience = 30 * time.Second
	}
	return &Module{Service: &Service{
		db: d.DB, objects: d.Objects, runs: d.Runs, wake: d.Wake, now: d.Now, settings: d.Settings, alive: newRegister(), programs: programs,
	}}
}

// Register adds the module's operations to the API.
func (m *Module) Register(api *httpapi.API) { controller{m.Service}.register(api) }

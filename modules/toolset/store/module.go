// Package store writes what toolset files say into the inventory.
package store

import (
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Deps is what the service needs.
type Deps struct {
	DB  *database.DB
	Box *secretbox.Box
	// Connections are those of users to the services behind toolsets.
	Connections []Connections
	Now         func() time.Time
}

// Connections are accounts of users that their toolsets need. Both methods are
// for operators: they concern all users.
type Connections interface {
	// Held counts those for a toolset.
	Held(h database.Handle, key string) (int64, error)
	// Forget deletes those for a toolset. The accounts themselves stay.
	Forget(tx database.Tx, key string, at time.Time) error
}

// New returns a service and starts nothing.
func New(d Deps) *Service {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	return &Service{db: d.DB, box: d.Box, connections: d.Connections, now: d.Now}
}

// Service stores toolsets for everybody. It is for operators.
type Service struct {
	db   *database.DB
	box  *secretbox.Box
	now  func() time.Time
	rows rows.Repository

	connections []Connections
}

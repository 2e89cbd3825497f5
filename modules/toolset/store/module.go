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
	Now func() time.Time
}

// New returns a service and starts nothing.
func New(d Deps) *Service {
	if d.Now == nil {
		d.Now = database.Now
	}
	return &Service{db: d.DB, box: d.Box, now: d.Now}
}

// Service stores toolsets for everybody. It is for operators.
type Service struct {
	db   *database.DB
	box  *secretbox.Box
	now  func() time.Time
	rows rows.Repository
}

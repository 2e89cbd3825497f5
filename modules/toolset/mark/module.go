// Package mark says which tools of toolsets programs call as plain functions.
package mark

import (
	"time"

	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Mark makes a tool one that programs call as a plain function.
type Mark struct {
	Toolset string `json:"toolset"`
	Tool    string `json:"tool"`
	// Name is that of the function; no two marks have one.
	Name string `json:"name"`
	// ReadOnly says that the tool changes nothing, Idempotent that calling it
	// twice is calling it once. One of them holds.
	ReadOnly   bool `json:"readOnly"`
	Idempotent bool `json:"idempotent"`
	// FromFile says that a toolset file has it, which alone changes it.
	FromFile bool `json:"fromFile"`
}

// Deps is what the service needs.
type Deps struct {
	DB *database.DB
	// Wake tells of changes; without it, marks are read whenever they are needed.
	Wake *wake.Hub
	Now  func() time.Time
}

// Service keeps marks. They are everybody's.
type Service struct {
	db   *database.DB
	now  func() time.Time
	rows rows.Repository
	all  *cached.Cache[struct{}, []Mark]
}

// life is how old marks may be in a process that was not told of a change.
const life = time.Second

// New returns a service and starts nothing.
func New(d Deps) *Service {
	s := cached.Settings{Max: 1, Age: life, Now: d.Now}
	if d.Wake == nil {
		s.Age = 0
	}
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	made := &Service{db: d.DB, now: d.Now, all: cached.New[struct{}, []Mark](s)}
	if d.Wake != nil {
		d.Wake.Follow(rows.Changed, func(uid string) {
			if uid == "" {
				made.all.Drop(func(struct{}, []Mark) bool { return true })
			}
		})
	}
	return made
}

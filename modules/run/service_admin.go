package run

import (
	"context"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/httpapi"
)

// AllFilter says which runs of all users are meant; what is empty does not count.
type AllFilter struct {
	UID         string
	Status      Status
	From, Until time.Time // when they began: at the one moment or later, before the other
}

// All returns the runs of all users, newest first, without anything that their
// users, models or programs wrote. It is for administrators.
func (s *Service) All(ctx context.Context, f AllFilter, p httpapi.PageQuery) (httpapi.Page[Run], error) {
	w, err := p.Window()
	if err != nil {
		return httpapi.Page[Run]{}, err
	}
	rows, total, err := s.repo.all(s.db.Read(ctx), f, w)
	if err != nil {
		return httpapi.Page[Run]{}, fmt.Errorf("list the runs of all users: %w", err)
	}
	return httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r row) int64 { return r.PK }), row.run), nil
}

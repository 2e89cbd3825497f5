// Package holdings compares what the database says is in the object storage with what
// is there.
package holdings

import (
	"context"
	"errors"
	"slices"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/objectstore"
)

// Deps is what the service needs.
type Deps struct {
	DB      *database.DB
	Objects objectstore.Store
}

// Service compares database and storage. It is for operators.
type Service struct {
	deps Deps
	rows repository
}

// New returns a service and starts nothing.
func New(d Deps) *Service { return &Service{deps: d} }

// Report is how database and storage agree.
type Report struct {
	// Named are the objects that rows name.
	Named int
	// Missing are those that are not there, Orphans those that no row names, sorted.
	Missing, Orphans []string
}

// prefixes are where objects are that rows name. Temporary files and SDKs have no rows.
func prefixes() []string { return []string{"drive/", "code/", "tool-output/"} }

// Verify compares. Servers may be at work: what was stored or deleted just now is not
// missing, but a file that is being uploaded may be among the orphans.
func (s *Service) Verify(ctx context.Context) (Report, error) {
	orphans, err := s.stored(ctx)
	if err != nil {
		return Report{}, err
	}
	var r Report
	var absent []string
	leaving := map[string]bool{}
	err = s.rows.named(s.deps.DB.Read(ctx), func(key string, goes bool) {
		if goes {
			leaving[key] = true
			delete(orphans, key)
			return
		}
		r.Named++
		if !orphans[key] {
			absent = append(absent, key)
		}
		delete(orphans, key)
	})
	if err != nil {
		return Report{}, err
	}
	for _, key := range absent {
		if leaving[key] {
			r.Named--
			continue
		}
		there, err := s.there(ctx, key)
		if err != nil {
			return Report{}, err
		}
		if !there {
			r.Missing = append(r.Missing, key)
		}
	}
	if len(r.Missing) > 0 { // unless their rows are gone, too
		still := map[string]bool{}
		if err := s.rows.named(s.deps.DB.Read(ctx), func(key string, goes bool) { still[key] = !goes }); err != nil {
			return Report{}, err
		}
		r.Missing = slices.DeleteFunc(r.Missing, func(key string) bool { return !still[key] })
	}
	if len(orphans) > 0 { // unless they are gone, too
		still, err := s.stored(ctx)
		if err != nil {
			return Report{}, err
		}
		for key := range orphans {
			if still[key] {
				r.Orphans = append(r.Orphans, key)
			}
		}
	}
	slices.Sort(r.Missing)
	slices.Sort(r.Orphans)
	return r, nil
}

// stored are the keys of what is there and rows name.
func (s *Service) stored(ctx context.Context) (map[string]bool, error) {
	stored := map[string]bool{}
	for _, prefix := range prefixes() {
		keys, err := s.deps.Objects.List(ctx, prefix)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			stored[key] = true
		}
	}
	return stored, nil
}

func (s *Service) there(ctx context.Context, key string) (bool, error) {
	content, err := s.deps.Objects.Get(ctx, key, 0)
	if errors.Is(err, objectstore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, content.Close()
}

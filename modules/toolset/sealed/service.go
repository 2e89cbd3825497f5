package sealed

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/secretbox"
)

// Deps is what the service needs.
type Deps struct {
	DB  *database.DB
	Box *secretbox.Box
	Now func() time.Time
	// Batch is how many values one transaction writes; 0 is the usual number.
	Batch int
}

const usualBatch = 200

// Service counts and changes what seals the values of all users. It is for operators.
type Service struct {
	db    *database.DB
	box   *secretbox.Box
	now   func() time.Time
	batch int
	rows  repository
}

// New returns a service and starts nothing.
func New(d Deps) *Service {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	if d.Batch == 0 {
		d.Batch = usualBatch
	}
	return &Service{db: d.DB, box: d.Box, now: d.Now, batch: d.Batch}
}

// Report is what was found in a column.
type Report struct {
	Column

	// Current is how many values the key seals, Old how many an old key does.
	Current, Old int64
	// Unknown is how many no key opens.
	Unknown int64
	// Resealed is how many were sealed again: they are among Current.
	Resealed int64
}

// Check counts which keys seal what.
func (s *Service) Check(ctx context.Context) ([]Report, error) { return s.each(ctx, false) }

// Rotate seals everything with the key that an old one still seals. Servers may run
// meanwhile: a value that changes, or that a process works with, is left as it is and
// counted as what it was. Whoever is interrupted begins anew, and finds the rest.
func (s *Service) Rotate(ctx context.Context) ([]Report, error) { return s.each(ctx, true) }

func (s *Service) each(ctx context.Context, reseal bool) ([]Report, error) {
	var reports []Report
	for _, c := range Columns() {
		r, err := s.column(ctx, c, reseal)
		if err != nil {
			return reports, fmt.Errorf("%s.%s: %w", c.Table, c.Name, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// stale is a value that an old key seals.
type stale struct {
	value

	again string // sealed with the key
}

func (s *Service) column(ctx context.Context, c Column, reseal bool) (Report, error) {
	r := Report{Column: c}
	for last := int64(0); ; {
		values, err := s.rows.after(s.db.Read(ctx), c, last, s.batch)
		if err != nil || len(values) == 0 {
			return r, err
		}
		var old []stale
		for _, v := range values {
			last = v.PK
			if again, ok := s.look(v, &r); ok {
				old = append(old, stale{v, again})
			}
		}
		if !reseal || len(old) == 0 {
			continue
		}
		n, err := s.write(ctx, c, old)
		if err != nil {
			return r, err
		}
		r.Resealed, r.Current, r.Old = r.Resealed+n, r.Current+n, r.Old-n
	}
}

// look counts a value, and returns it sealed with the key where an old one seals it.
func (s *Service) look(v value, r *Report) (again string, old bool) {
	if v.Text == "" || r.clear && strings.HasPrefix(strings.TrimSpace(v.Text), "{") {
		return "", false
	}
	secret, key, err := s.box.Which(v.Text)
	switch {
	case err != nil:
		r.Unknown++
	case key == 0:
		r.Current++
	default:
		r.Old++
		return s.box.Seal(secret), true
	}
	return "", false
}

// write replaces values, and says how many were.
func (s *Service) write(ctx context.Context, c Column, old []stale) (n int64, err error) {
	err = s.db.InTx(ctx, func(tx database.Tx) error {
		n = 0
		for _, o := range old {
			replaced, err := s.rows.replace(tx, c, o.value, o.again, s.now())
			if err != nil {
				return err
			}
			if replaced {
				n++
			}
		}
		if n == 0 {
			return nil
		}
		detail := map[string]string{"column": c.Name, "values": strconv.FormatInt(n, 10)}
		return audit.Write(tx, audit.Change{By: actor.Actor{UID: audit.Operator}, Action: "key.rotate", Subject: c.Table, Detail: detail}, s.now())
	})
	return n, err
}

package sealed

import "context"

// InTwo seals the first values of a column again, and does something between reading
// and writing them.
func (s *Service) InTwo(ctx context.Context, c Column, between func()) (int64, error) {
	values, err := s.rows.after(s.db.Read(ctx), c, 0, s.batch)
	if err != nil {
		return 0, err
	}
	r := Report{Column: c}
	var old []stale
	for _, v := range values {
		if again, ok := s.look(v, &r); ok {
			old = append(old, stale{v, again})
		}
	}
	between()
	return s.write(ctx, c, old)
}

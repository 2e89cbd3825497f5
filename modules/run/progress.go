package run

import (
	"context"
	"fmt"
	"slices"
)

// progressAtOnce is how many runs one statement asks about.
const progressAtOnce = 200

// Progress says how far runs are: the number of the newest event of each. Runs
// that do not exist, or not for that user, are left out.
func (s *Service) Progress(ctx context.Context, runs []Ref) (map[Ref]int64, error) {
	newest := make(map[Ref]int64, len(runs))
	for some := range slices.Chunk(runs, progressAtOnce) {
		rows, err := s.repo.progress(s.db.Read(ctx), some)
		if err != nil {
			return nil, fmt.Errorf("read how far runs are: %w", err)
		}
		for _, r := range rows {
			newest[Ref{UID: r.UID, ResultID: r.ResultID, Version: r.Version}] = r.EventSeq
		}
	}
	return newest, nil
}

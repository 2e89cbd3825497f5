package run

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Versions returns all versions of runs of whatever user: who they belong to,
// how far they are, and whether they have ended. Nothing else of them is set.
func (s *Service) Versions(ctx context.Context, resultIDs []string) ([]Run, error) {
	rows, err := s.repo.versions(s.db.Read(ctx), resultIDs)
	if err != nil {
		return nil, fmt.Errorf("read the versions of runs: %w", err)
	}
	return toRuns(rows), nil
}

// Changed names the runs of all users that have not ended, and those that ended
// no earlier than since, the newest first.
func (s *Service) Changed(ctx context.Context, since time.Time, limit int) ([]string, error) {
	ids, err := s.repo.changed(s.db.Read(ctx), since, limit)
	if err != nil {
		return nil, fmt.Errorf("read which runs changed: %w", err)
	}
	return ids, nil
}

// OfTopic is the run that a topic is about; false for topics of other things.
func OfTopic(topic string) (resultID string, ok bool) { return strings.CutPrefix(topic, topicPrefix) }

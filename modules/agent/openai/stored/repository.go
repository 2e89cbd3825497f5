package stored

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/database"
)

// repository is the table stored_responses.
type repository struct{}

type responseRow struct {
	PK         int64 `gorm:"primaryKey"`
	ResponseID string
	UID        string
	PreviousID string
	Input      string
	Answer     string
	Size       int64
	CreatedAt  time.Time `gorm:"autoCreateTime:false"`
	ExpiresAt  time.Time
}

// TableName implements gorm's Tabler.
func (responseRow) TableName() string { return "stored_responses" }

func (r responseRow) response() (Response, error) {
	out := Response{ID: r.ResponseID, Previous: r.PreviousID, Answer: json.RawMessage(r.Answer)}
	if err := json.Unmarshal([]byte(r.Input), &out.Input); err != nil {
		return Response{}, fmt.Errorf("the input of the stored response %s: %w", r.ResponseID, err)
	}
	return out, nil
}

func (repository) insert(tx database.Tx, r responseRow) error {
	return database.Unscoped(tx.Handle).Create(&r).Error // the row carries its uid
}

func (repository) kept(h database.Handle, uid string) (count, size int64, err error) {
	var sum struct{ Count, Size int64 }
	err = database.Scoped(h, uid).Model(&responseRow{}).Select("COUNT(*) AS count, COALESCE(SUM(size), 0) AS size").Scan(&sum).Error
	return sum.Count, sum.Size, err
}

// sizes are those of the newest answers, the newest first.
func (repository) sizes(h database.Handle, uid string, limit int) ([]responseRow, error) {
	var rows []responseRow
	err := database.Scoped(h, uid).Select("pk", "size").Order("pk DESC").Limit(limit).Find(&rows).Error
	return rows, err
}

func (repository) deleteUntil(tx database.Tx, uid string, pk int64) error {
	return database.Scoped(tx.Handle, uid).Where("pk <= ?", pk).Delete(&responseRow{}).Error
}

func (repository) one(h database.Handle, uid, id string, now time.Time) (responseRow, error) {
	var r responseRow
	err := database.Scoped(h, uid).Where("response_id = ? AND expires_at > ?", id, now).Take(&r).Error
	if errors.Is(err, database.ErrNotFound) {
		return r, ErrMissing
	}
	return r, err
}

// link is an answer of a conversation without its content.
type link struct {
	PK         int64
	PreviousID string
	Size       int64
}

// chain goes back from an answer to the first one of its conversation, or to the last
// one that is there. Every step names the user.
func (repository) chain(h database.Handle, uid, id string, now time.Time) ([]link, error) {
	var links []link
	err := database.Unscoped(h).Raw(`WITH RECURSIVE chain (pk, previous_id, size, depth) AS (
		SELECT pk, previous_id, size, 1 FROM stored_responses WHERE uid = ? AND response_id = ? AND expires_at > ?
		UNION ALL
		SELECT r.pk, r.previous_id, r.size, c.depth + 1 FROM stored_responses r JOIN chain c ON r.response_id = c.previous_id
		WHERE r.uid = ? AND r.expires_at > ? AND c.depth <= ?
	) SELECT pk, previous_id, size FROM chain ORDER BY depth`, uid, id, now, uid, now, maxChain).Scan(&links).Error
	return links, err
}

func (repository) those(h database.Handle, uid string, pks []int64) ([]responseRow, error) {
	var rows []responseRow
	err := database.Scoped(h, uid).Where("pk IN ?", pks).Find(&rows).Error
	return rows, err
}

func (repository) delete(tx database.Tx, uid, id string, now time.Time) error {
	return database.MustAffect(database.Scoped(tx.Handle, uid).Where("response_id = ? AND expires_at > ?", id, now).Delete(&responseRow{}), ErrMissing)
}

// purge is a system job: the answers of all users that are over.
func (repository) purge(tx database.Tx, now time.Time) error {
	return database.Unscoped(tx.Handle).Where("expires_at <= ?", now).Delete(&responseRow{}).Error
}

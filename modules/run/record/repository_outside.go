package record

import (
	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/run"
)

// outside counts the user's programs that are executed outside now. A record is
// looked up for each of the user's calls that execute: there may be very many that
// have ended.
func (repository) outside(h database.Handle, uid string) (n int64, err error) {
	return n, database.Scoped(h, uid).Model(&executingRow{}).Where(`(SELECT c.lease_owner FROM tool_call_results c
		WHERE c.uid = executing_calls.uid AND c.pk = executing_calls.call_pk AND c.status = ? AND c.deleted_at IS NULL) IN ?`,
		Executing, []string{run.Outside, ending}).Count(&n).Error
}

// lockOutside reads the programs of a run that are executed outside now, or only
// the one that is named, and holds their rows until the transaction ends.
func (repository) lockOutside(tx database.Tx, r run.Ref, callID string) ([]Call, error) {
	return many(ofRun(executedOutside(database.Lock(database.Scoped(tx.Handle, r.UID))), r, callID).Order("pk"))
}

// ending is the owner, in its lease, of a program that is being finished.
const ending = "outside, ending"

// seal lets them make no more calls.
func (repository) seal(tx database.Tx, r run.Ref, callID string) error {
	return ofRun(executedOutside(database.Scoped(tx.Handle, r.UID)), r, callID).Model(&callRow{}).Update("lease_owner", ending).Error
}

func executedOutside(q *gorm.DB) *gorm.DB {
	return q.Where("status = ? AND lease_owner IN ? AND deleted_at IS NULL", Executing, []string{run.Outside, ending})
}

func ofRun(q *gorm.DB, r run.Ref, callID string) *gorm.DB {
	q = q.Where("result_id = ? AND version = ?", r.ResultID, r.Version)
	if callID != "" {
		q = q.Where("call_id = ?", callID)
	}
	return q
}

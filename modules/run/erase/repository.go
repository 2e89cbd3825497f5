package erase

import (
	"cmp"
	"errors"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
)

// repository is the tables action_results, run_events, action_messages,
// tool_call_results, approvals, approval_permissions and agent_turns.
type repository struct{}

// runRow is what deleting a run needs of it.
type runRow struct {
	PK       int64 `gorm:"primaryKey"`
	ResultID string
	Version  int
	UID      string
	Status   string
}

// TableName implements gorm's Tabler.
func (runRow) TableName() string { return "action_results" }

type eventRow struct {
	ResultID string
}

// TableName implements gorm's Tabler.
func (eventRow) TableName() string { return "run_events" }

type messageRow struct {
	ResultID string
}

// TableName implements gorm's Tabler.
func (messageRow) TableName() string { return "action_messages" }

// callRow is what deleting a run needs of a call's record.
type callRow struct {
	CallID string
	UID    string
}

// TableName implements gorm's Tabler.
func (callRow) TableName() string { return "tool_call_results" }

// owner finds the user of a run. For operators: they know runs by their ids.
func (repository) owner(h database.Handle, resultID string) (string, error) {
	var r runRow
	err := database.Unscoped(h).Where("result_id = ?", resultID).Take(&r).Error
	if errors.Is(err, database.ErrNotFound) {
		return "", run.ErrMissing.Do("List the runs of a user with `portico run list --user NAME`.")
	}
	return r.UID, err
}

func (repository) versions(h database.Handle, uid, resultID string) ([]runRow, error) {
	var rows []runRow
	err := database.Lock(database.Scoped(h, uid)).Where("result_id = ?", resultID).Order("version").Find(&rows).Error
	return rows, err
}

func (repository) callsOf(h database.Handle, uid, resultID string) ([]string, error) {
	var ids []string
	err := database.Scoped(h, uid).Model(&callRow{}).Where("result_id = ? AND deleted_at IS NULL", resultID).Order("pk").Pluck("call_id", &ids).Error
	return ids, err
}

// stored lists the calls whose whole result may be an object: a shortened result names
// it (the _ is a question mark, which would be an argument), and a call that failed may
// have left one.
func (repository) stored(h database.Handle, uid, resultID string) ([]string, error) {
	var ids []string
	return ids, database.Scoped(h, uid).Model(&callRow{}).Where("result_id = ? AND deleted_at IS NULL", resultID).
		Where("(status = 'failed' OR output LIKE '%/v1/tool/call/output_toolCallId=%')").Order("pk").Pluck("call_id", &ids).Error
}

func (repository) executing(h database.Handle, uid, resultID string) (n int64, err error) {
	return n, database.Scoped(h, uid).Model(&callRow{}).Where("result_id = ? AND status IN ('executing', 'waiting') AND deleted_at IS NULL", resultID).Count(&n).Error
}

// count is unscoped because events and messages have no user; its caller has
// found the run of the user's.
func (repository) count(h database.Handle, model any, resultID string) (n int64, err error) {
	return n, database.Unscoped(h).Model(model).Where("result_id = ?", resultID).Count(&n).Error
}

// told counts the messages of calls that code made: each is the event of a call's
// start, unless it was stored by an earlier version of this server.
func (repository) told(h database.Handle, uid, resultID string) (n int64, err error) {
	return n, database.Unscoped(h).Model(&eventRow{}).Where("result_id = ? AND type = ?", resultID, string(run.ToolCallStart)).
		Where("EXISTS (?)", database.Scoped(h, uid).Table(callRow{}.TableName()).Select("1").
			Where("tool_call_results.call_id = run_events.call_id AND tool_call_results.type <> ?", string(ids.Agent))).
		Where("NOT EXISTS (SELECT 1 FROM action_messages m WHERE m.result_id = run_events.result_id AND m.version = run_events.version AND m.seq = run_events.seq)").
		Count(&n).Error
}

// clear is unscoped because events and messages have no user; its caller has
// found the run of the user's.
func (repository) clear(tx database.Tx, model any, resultID string) error {
	return database.Unscoped(tx.Handle).Where("result_id = ?", resultID).Delete(model).Error
}

// delete deletes the versions of a run, with what was to be allowed in it, what was
// allowed for it, and what was kept of its turns.
func (repository) delete(tx database.Tx, uid, resultID string) error {
	for _, table := range []string{"approvals", "approval_permissions", "agent_turns"} {
		if err := database.Scoped(tx.Handle, uid).Table(table).Where("result_id = ?", resultID).Delete(&runRow{}).Error; err != nil {
			return err
		}
	}
	err := database.Scoped(tx.Handle, uid).Where("result_id = ?", resultID).Delete(&runRow{}).Error
	return cmp.Or(err, run.Deleted(tx, resultID))
}

// changeCalls changes the records of a run's calls that are not deleted.
func (repository) changeCalls(tx database.Tx, uid, resultID string, columns map[string]any) error {
	return database.Scoped(tx.Handle, uid).Model(&callRow{}).Where("result_id = ? AND deleted_at IS NULL", resultID).Updates(columns).Error
}

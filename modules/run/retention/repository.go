package retention

import (
	"errors"
	"time"

	"github.com/portico-run/portico/internal/database"
)

// repository deletes what is old, in the tables of all users. Each condition begins
// with an index, and each statement has a bound.
type repository struct{}

// runKey names one version of a run.
type runKey struct {
	ResultID string
	Version  int
	UID      string
	EventSeq int64
}

type callRow struct {
	UID    string
	CallID string
	Stored bool // its whole result may be an object
}

// idle are runs in which nothing happens: no call of theirs is open.
const idle = ` AND NOT EXISTS (SELECT 1 FROM tool_call_results c WHERE c.result_id = r.result_id AND c.status IN ('executing', 'waiting'))`

// settled are runs of which no version is open, or changed since a moment.
const settled = idle + ` AND NOT EXISTS (SELECT 1 FROM action_results o WHERE o.result_id = r.result_id
	AND (o.status NOT IN ('finish', 'error', 'aborted') OR o.updated_at >= ?))`

const withEvents = `NOT events_gone AND status IN ('finish', 'error', 'aborted') AND updated_at < ?`

// outside are the ended calls outside of runs, and of runs that a person deleted.
const outside = `(result_id = 'non-result-id' OR deleted_at IS NOT NULL) AND created_at < ? AND updated_at < ? AND status IN ('completed', 'failed')`

// childless keeps a program until the calls that it made are gone.
const childless = ` AND NOT EXISTS (SELECT 1 FROM tool_call_results k WHERE k.ptc_call_id = t.call_id)`

// calls are the columns of callRow. A shortened result names its object (the _ is a
// question mark, which would be an argument); a call that failed may have left one.
const calls = `SELECT t.uid, t.call_id, (t.status = 'failed' OR t.output LIKE '%/v1/tool/call/output_toolCallId=%') AS stored FROM tool_call_results t WHERE `

func final() []string { return []string{"finish", "error", "aborted"} }

// oldRuns lists runs that ended with a status before a moment, the oldest first.
func (repository) oldRuns(h database.Handle, status string, before time.Time, limit int) ([]runKey, error) {
	var found []runKey
	return found, database.Unscoped(h).Raw(`SELECT r.result_id, r.version, r.uid, r.event_seq FROM action_results r
		WHERE r.status = ? AND r.updated_at < ?`+settled+` ORDER BY r.updated_at LIMIT ?`, status, before, before, limit).Scan(&found).Error
}

// eventful lists ended versions of runs that have more than their last event.
func (repository) eventful(h database.Handle, before time.Time, limit int) ([]runKey, error) {
	var found []runKey
	return found, database.Unscoped(h).Raw(`SELECT r.result_id, r.version, r.uid, r.event_seq FROM action_results r WHERE `+withEvents+idle+
		` ORDER BY r.updated_at LIMIT ?`, before, limit).Scan(&found).Error
}

// deleteEvents deletes events of a version before a number.
func (repository) deleteEvents(tx database.Tx, of runKey, before int64, limit int) (int, error) {
	q := database.Unscoped(tx.Handle).Exec(`DELETE FROM run_events WHERE result_id = ? AND version = ? AND seq < ? AND seq IN (
		SELECT seq FROM run_events WHERE result_id = ? AND version = ? AND seq < ? ORDER BY seq LIMIT ?)`,
		of.ResultID, of.Version, before, of.ResultID, of.Version, before, limit)
	return int(q.RowsAffected), q.Error
}

func (repository) eventsGone(tx database.Tx, of runKey) error {
	return database.Unscoped(tx.Handle).Exec("UPDATE action_results SET events_gone = true WHERE uid = ? AND result_id = ? AND version = ?", of.UID, of.ResultID, of.Version).Error
}

func (repository) deleteMessages(tx database.Tx, of runKey, limit int) (int, error) {
	q := database.Unscoped(tx.Handle).Exec(`DELETE FROM action_messages WHERE result_id = ? AND version = ? AND seq IN (
		SELECT seq FROM action_messages WHERE result_id = ? AND version = ? ORDER BY seq LIMIT ?)`, of.ResultID, of.Version, of.ResultID, of.Version, limit)
	return int(q.RowsAffected), q.Error
}

// versions are the versions of a run that ended before a moment, and whether others are
// there.
func (repository) versions(h database.Handle, uid, resultID string, before time.Time) (old []runKey, others int64, err error) {
	const ended = "result_id = ? AND status IN ? AND updated_at < ?"
	err = database.Scoped(h, uid).Table("action_results").Select("result_id, version, uid, event_seq").Where(ended, resultID, final(), before).Order("version").Scan(&old).Error
	if err == nil {
		err = database.Scoped(h, uid).Table("action_results").Where("result_id = ? AND NOT ("+ended+")", resultID, resultID, final(), before).Count(&others).Error
	}
	return old, others, err
}

// ofRun are calls of a run that made no others.
func (repository) ofRun(h database.Handle, uid, resultID string, limit int) ([]callRow, error) {
	var found []callRow
	return found, database.Unscoped(h).Raw(calls+`t.uid || '' = ? AND t.result_id = ?`+childless+` LIMIT ?`, uid, resultID, limit).Scan(&found).Error
}

// oldCalls lists calls outside of runs that ended before a moment, the oldest first.
func (repository) oldCalls(h database.Handle, before time.Time, limit int) ([]callRow, error) {
	var found []callRow
	return found, database.Unscoped(h).Raw(calls+outside+childless+` ORDER BY t.created_at LIMIT ?`, before, before, limit).Scan(&found).Error
}

// deleteCalls deletes records of calls with what is about them alone.
func (repository) deleteCalls(tx database.Tx, callIDs []string) (int, error) {
	for _, table := range []string{"credit_holds", "approvals"} {
		if err := database.Unscoped(tx.Handle).Exec("DELETE FROM "+table+" WHERE call_id IN ?", callIDs).Error; err != nil {
			return 0, err
		}
	}
	q := database.Unscoped(tx.Handle).Exec("DELETE FROM tool_call_results WHERE call_id IN ? AND status IN ('completed', 'failed')", callIDs)
	if q.Error == nil && int(q.RowsAffected) < len(callIDs) {
		return 0, errChanged
	}
	return int(q.RowsAffected), q.Error
}

// errChanged says that something began anew while it was to be deleted.
var errChanged = errors.New("what was to be deleted has changed")

// deleteRun deletes the versions of a run, of which nothing else is left.
func (repository) deleteRun(tx database.Tx, uid, resultID string, versions int, before time.Time) error {
	for _, table := range []string{"agent_turns", "approval_permissions"} {
		if err := database.Unscoped(tx.Handle).Exec("DELETE FROM "+table+" WHERE uid = ? AND result_id = ?", uid, resultID).Error; err != nil {
			return err
		}
	}
	q := database.Unscoped(tx.Handle).Exec("DELETE FROM action_results WHERE uid || '' = ? AND result_id = ? AND status IN ? AND updated_at < ?", uid, resultID, final(), before)
	if q.Error == nil && q.RowsAffected != int64(versions) {
		return errChanged
	}
	return q.Error
}

func (repository) deleteAudit(tx database.Tx, before time.Time, limit int) (int, error) {
	q := database.Unscoped(tx.Handle).Exec("DELETE FROM audit_events WHERE pk IN (SELECT pk FROM audit_events WHERE created_at < ? ORDER BY created_at LIMIT ?)", before, limit)
	return int(q.RowsAffected), q.Error
}

// old says, for each table with a setting, what of it could go by a moment.
func old(table string) string {
	return map[string]string{
		"action_results":    "SELECT r.updated_at AS at FROM action_results r WHERE r.status = ? AND r.updated_at < ?" + settled + " ORDER BY r.updated_at",
		"run_events":        "SELECT r.updated_at AS at FROM action_results r WHERE " + withEvents + idle + " ORDER BY r.updated_at",
		"tool_call_results": "SELECT t.created_at AS at FROM tool_call_results t WHERE " + outside + childless + " ORDER BY t.created_at",
		"audit_events":      "SELECT created_at AS at FROM audit_events WHERE created_at < ? ORDER BY created_at",
	}[table]
}

// each asks the query of a table: one of runs is about one way to have ended.
func each(table string, before time.Time, ask func(query string, arguments ...any) error) error {
	switch table {
	case "action_results":
		for _, status := range final() {
			if err := ask(old(table), status, before, before); err != nil {
				return err
			}
		}
		return nil
	case "tool_call_results":
		return ask(old(table), before, before)
	}
	return ask(old(table), before)
}

// oldest is when the oldest of what ended before a moment did; zero for nothing.
func (repository) oldest(h database.Handle, table string, before time.Time) (oldest time.Time, err error) {
	return oldest, each(table, before, func(query string, arguments ...any) error {
		var rows []struct{ At time.Time }
		err := database.Unscoped(h).Raw(query+" LIMIT 1", arguments...).Scan(&rows).Error
		if err == nil && len(rows) > 0 && (oldest.IsZero() || rows[0].At.Before(oldest)) {
			oldest = rows[0].At.UTC()
		}
		return err
	})
}

// count says how many there are, up to a limit.
func (repository) count(h database.Handle, table string, before time.Time, limit int) (n int64, err error) {
	return n, each(table, before, func(query string, arguments ...any) error {
		var found int64
		err := database.Unscoped(h).Raw("SELECT count(*) FROM ("+query+" LIMIT ?) AS found", append(arguments, limit)...).Scan(&found).Error
		n = min(n+found, int64(limit))
		return err
	})
}

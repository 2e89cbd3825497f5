package approval

import (
	"errors"
	"time"

	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
)

// repository is the tables approvals, approval_rules and approval_permissions.
type repository struct{}

type approvalRow struct {
	PK               int64 `gorm:"primaryKey"`
	CallID           string
	UID              string
	ResultID         string
	Version          int
	ParentID         string
	Line             int
	Toolset          string
	Tool             string
	Arguments        string
	ChangedArguments *string
	Host             string
	Price            string
	Reason           string
	State            State
	Decision         Decision
	DecidedBy        string
	Note             string
	CreatedAt        time.Time
	ExpiresAt        time.Time
	DecidedAt        *time.Time
	NotifyAt         *time.Time
	NotifyAttempts   int
	Round            int
	Question         *string
}

// TableName implements gorm's Tabler.
func (approvalRow) TableName() string { return "approvals" }

type ruleRow struct {
	PK        int64 `gorm:"primaryKey"`
	UID       string
	KeyID     string
	Toolset   string
	Tool      string
	Level     Level
	CreatedAt time.Time
}

// TableName implements gorm's Tabler.
func (ruleRow) TableName() string { return "approval_rules" }

type permissionRow struct {
	PK           int64 `gorm:"primaryKey"`
	PermissionID string
	UID          string
	ResultID     string
	Toolset      string
	Tool         string
	Pattern      string
	CreatedAt    time.Time
}

// TableName implements gorm's Tabler.
func (permissionRow) TableName() string { return "approval_permissions" }

func (repository) insert(tx database.Tx, row approvalRow) error {
	return database.Unscoped(tx.Handle).Create(&row).Error
}

// find reads the last wait of a call.
func (repository) find(h database.Handle, uid, callID string) (approvalRow, error) {
	var row approvalRow
	err := database.Scoped(h, uid).Where("call_id = ?", callID).Order("round DESC").Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		err = ErrMissing.With(err)
	}
	return row, err
}

// owner is whose an approval is. For operators: they know calls by their ids.
func (repository) owner(h database.Handle, callID string) (string, error) {
	var row approvalRow
	err := database.Unscoped(h).Select("uid").Where("call_id = ?", callID).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		err = ErrMissing.With(err)
	}
	return row.UID, err
}

// waits counts the waits of a call.
func (repository) waits(h database.Handle, uid, callID string) (n int64, err error) {
	return n, database.Scoped(h, uid).Model(&approvalRow{}).Where("call_id = ?", callID).Count(&n).Error
}

// waiting counts the calls of a user that wait.
func (repository) waiting(h database.Handle, uid string) (n int64, err error) {
	return n, database.Scoped(h, uid).Model(&approvalRow{}).Where("state = ?", Waiting).Count(&n).Error
}

// settle changes an approval that waits, and has not expired at a moment; any other
// is absent. A zero moment does not look at the time.
func (repository) settle(tx database.Tx, uid, callID string, before time.Time, columns map[string]any) error {
	q := database.Scoped(tx.Handle, uid).Model(&approvalRow{}).Where("call_id = ? AND state = ?", callID, Waiting)
	if !before.IsZero() {
		q = q.Where("expires_at > ?", before)
	}
	return database.MustAffect(q.Updates(columns), errLate)
}

// list reads a window of a user's approvals: those that wait, the oldest first, or
// all, the newest first.
func (repository) list(h database.Handle, uid string, all bool, w database.Window) ([]approvalRow, *int64, error) {
	if all {
		return database.Newest[approvalRow](database.Scoped(h, uid), w)
	}
	return database.Oldest[approvalRow](database.Scoped(h, uid).Where("state = ?", Waiting), w)
}

// waitingOf lists what waits, of one user or of all, for operators.
func (repository) waitingOf(h database.Handle, uid string, limit int) (rows []approvalRow, err error) {
	q := database.Unscoped(h).Where("state = ?", Waiting)
	if uid != "" {
		q = q.Where("uid = ?", uid)
	}
	return rows, q.Order("pk").Limit(limit).Find(&rows).Error
}

// abandoned ends approvals that nobody waits for any more, and those that should
// have expired before a moment. A system job: they are of all users.
func (repository) abandoned(tx database.Tx, before, now time.Time) error {
	return database.Unscoped(tx.Handle).Model(&approvalRow{}).
		Where(`state = ? AND (expires_at < ? OR NOT EXISTS (SELECT 1 FROM tool_call_results c
			WHERE c.uid = approvals.uid AND c.call_id = approvals.call_id AND c.status = 'waiting'))`, Waiting, before).
		Updates(map[string]any{"state": Expired, "note": noteGone, "decided_at": now, "notify_at": nil}).Error
}

// rulesOf are the rules of everybody and of a user; operators read those of all.
func (repository) rulesOf(h database.Handle, uid string) (rows []ruleRow, err error) {
	// What everybody shares has no tenant.
	return rows, database.Unscoped(h).Where("uid IN ?", []string{"", uid}).Order("pk").Find(&rows).Error
}

func (repository) allRules(h database.Handle) (rows []ruleRow, err error) {
	return rows, database.Unscoped(h).Order("uid, key_id, toolset, tool").Find(&rows).Error
}

func (repository) saveRule(tx database.Tx, row ruleRow) error {
	return database.Unscoped(tx.Handle).Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "uid"}, {Name: "key_id"}, {Name: "toolset"}, {Name: "tool"}},
		DoUpdates: clause.AssignmentColumns([]string{"level", "created_at"}),
	}).Create(&row).Error
}

func (repository) deleteRule(tx database.Tx, row ruleRow) error {
	return database.MustAffect(database.Unscoped(tx.Handle).
		Where("uid = ? AND key_id = ? AND toolset = ? AND tool = ?", row.UID, row.KeyID, row.Toolset, row.Tool).Delete(&ruleRow{}), ErrNoRule)
}

// permissions are what a user has allowed of a tool, for a run and for all.
func (repository) permissions(h database.Handle, uid, toolset, tool, resultID string) (rows []permissionRow, err error) {
	return rows, database.Scoped(h, uid).Where("toolset = ? AND tool = ? AND result_id IN ?", toolset, tool, []string{"", resultID}).Find(&rows).Error
}

func (repository) insertPermission(tx database.Tx, row permissionRow) error {
	return database.Unscoped(tx.Handle).Create(&row).Error
}

func (repository) countPermissions(h database.Handle, uid string) (n int64, err error) {
	return n, database.Scoped(h, uid).Model(&permissionRow{}).Where("result_id = ''").Count(&n).Error
}

func (repository) listPermissions(h database.Handle, uid string, w database.Window) ([]permissionRow, *int64, error) {
	return database.Newest[permissionRow](database.Scoped(h, uid), w)
}

func (repository) deletePermission(tx database.Tx, uid, id string) error {
	return database.MustAffect(database.Scoped(tx.Handle, uid).Where("permission_id = ?", id).Delete(&permissionRow{}), ErrNoPermission)
}

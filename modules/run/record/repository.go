package record

import (
	"encoding/json"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/node"
)

// repository is the tables tool_call_results and executing_calls.
type repository struct{}

type callRow struct {
	PK             int64 `gorm:"primaryKey"`
	ResultID       string
	Version        int
	CallID         string
	UID            string
	ToolsetID      string
	ToolName       string
	StepName       *string
	Input          string
	Output         string
	Status         Status
	Error          *string
	Type           ids.Origin
	PTCCallID      *string `gorm:"column:ptc_call_id"`
	CanvasID       *string
	IdempotencyKey *string
	RequestHash    *string
	Line           *int
	ResultBytes    *int64
	LeaseOwner     *string
	LeaseExpiresAt *time.Time
	CreatedAt      time.Time
	UpdatedAt      time.Time `gorm:"autoUpdateTime:false"`
	DeletedAt      *time.Time
}

func (callRow) TableName() string { return "tool_call_results" }

// executingRow names a call that executes, so that those whose process is gone
// are found without an index on what changes in a record: the end of a call would
// then have to be written to all its indexes.
type executingRow struct {
	CallPK int64 `gorm:"primaryKey;autoIncrement:false"`
	UID    string
}

func (executingRow) TableName() string { return "executing_calls" }

func (r callRow) call() Call {
	c := Call{
		CallID: r.CallID, ParentID: database.Text(r.PTCCallID), Origin: r.Type, UID: r.UID, ResultID: r.ResultID,
		Version: r.Version, CanvasID: database.Text(r.CanvasID), Toolset: r.ToolsetID, Tool: r.ToolName, StepName: database.Text(r.StepName),
		Input: json.RawMessage(r.Input), Status: r.Status, Error: database.Text(r.Error),
		Line: number(r.Line), Bytes: r.ResultBytes, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if r.Output != "" {
		c.Output = json.RawMessage(r.Output)
	}
	if owner := database.Text(r.LeaseOwner); r.LeaseExpiresAt != nil && (owner == run.Outside || owner == ending) {
		c.ExpiresAt, c.Ending = r.LeaseExpiresAt.UTC(), owner == ending
	}
	return c
}

// claim is what a new record holds beyond the call itself.
type claim struct {
	once  Once
	owner string
	until *time.Time // of what another service executes; nil for what lives with its process
}

// insert writes the first record of a call.
func (rp repository) insert(tx database.Tx, c Call, m claim) error {
	row := callRow{
		ResultID: c.ResultID, Version: c.Version, CallID: c.CallID, UID: c.UID, ToolsetID: c.Toolset, ToolName: c.Tool,
		StepName: database.Optional(c.StepName), Input: string(c.Input), Status: Executing, Type: c.Origin,
		PTCCallID: database.Optional(c.ParentID), CanvasID: database.Optional(c.CanvasID),
		IdempotencyKey: database.Optional(m.once.Key), RequestHash: database.Optional(m.once.Hash),
		Line: optional(c.Line), LeaseOwner: database.Optional(m.owner), LeaseExpiresAt: m.until, CreatedAt: c.CreatedAt, UpdatedAt: c.CreatedAt,
	}
	if b := tx.Batch(); b != nil {
		rp.queueInsert(b, row)
		return nil
	}
	if err := database.Unscoped(tx.Handle).Create(&row).Error; err != nil {
		return err
	}
	return database.Unscoped(tx.Handle).Create(&executingRow{CallPK: row.PK, UID: row.UID}).Error
}

// open are the states of calls without a final record.
func open() []Status { return []Status{Executing, Waiting} }

// finish writes the final record of a call that is still executing, or waits; any
// other call is absent. Sent as a whole, it takes those that execute only: a call
// that waited executes again before its process ends it.
func (rp repository) finish(tx database.Tx, c Call, at time.Time) error {
	if b := tx.Batch(); b != nil {
		rp.queueFinish(b, c, at)
		return nil
	}
	err := database.MustAffect(database.Scoped(tx.Handle, c.UID).Model(&callRow{}).
		Where("call_id = ? AND status IN ?", c.CallID, open()).
		Updates(map[string]any{
			"status": c.Status, "output": string(c.Output), "error": database.Optional(c.Error), "result_bytes": c.Bytes,
			"lease_owner": nil, "lease_expires_at": nil, "updated_at": at,
		}), ErrMissing)
	if err != nil {
		return err
	}
	pk := database.Scoped(tx.Handle, c.UID).Model(&callRow{}).Select("pk").Where("call_id = ?", c.CallID)
	return database.Scoped(tx.Handle, c.UID).Where("call_pk = (?)", pk).Delete(&executingRow{}).Error
}

// move changes a call of this process that has a status, and has not been given up.
func (repository) move(tx database.Tx, c Call, from Status, columns map[string]any) error {
	return database.MustAffect(database.Scoped(tx.Handle, c.UID).Model(&callRow{}).
		Where("call_id = ? AND status = ?", c.CallID, from).Updates(columns), ErrMissing)
}

func (repository) byID(h database.Handle, uid, callID string) (Call, error) {
	return one(database.Scoped(h, uid).Where("call_id = ? AND deleted_at IS NULL", callID))
}

// lock reads a call and holds its row until the transaction ends.
func (repository) lock(tx database.Tx, uid, callID string) (Call, error) {
	return one(database.Lock(database.Scoped(tx.Handle, uid)).Where("call_id = ? AND deleted_at IS NULL", callID))
}

// join refuses a call of a program that has ended, and keeps the program from
// ending until the transaction ends.
func (rp repository) join(tx database.Tx, c Call, now time.Time) error {
	if b := tx.Batch(); b != nil {
		rp.queueJoin(b, c, now)
		return nil
	}
	parent, err := rp.lock(tx, c.UID, c.ParentID)
	if err == nil && !parent.Live(now) {
		err = ErrParentEnded
	}
	return err
}

// byKey finds the call an idempotency key was used for, and the hash of its
// request.
func (repository) byKey(h database.Handle, uid, key string) (Call, string, error) {
	var row callRow
	if err := absent(database.Scoped(h, uid).Where("idempotency_key = ?", key).Take(&row).Error); err != nil {
		return Call{}, "", err
	}
	return row.call(), database.Text(row.RequestHash), nil
}

// sizeRow is how large a record is, which is known without reading it.
type sizeRow struct {
	PK    int64
	Bytes int64
}

func (sizeRow) TableName() string { return "tool_call_results" }

// sizes are those of calls in the order they were made.
func (repository) sizes(h database.Handle, uid string, f Filter, w database.Window) ([]sizeRow, *int64, error) {
	return database.Oldest[sizeRow](filtered(h, uid, f).Select("pk, OCTET_LENGTH(input) + OCTET_LENGTH(output) AS bytes"), w)
}

// byPKs are calls in the order they were made.
func (repository) byPKs(h database.Handle, uid string, pks []int64) ([]Call, error) {
	return many(database.Scoped(h, uid).Where("pk IN ? AND deleted_at IS NULL", pks).Order("pk"))
}

// listSummaries reads calls without what they were asked and answered.
func (repository) listSummaries(h database.Handle, uid string, f Filter, w database.Window) ([]summaryRow, *int64, error) {
	rows, total, err := database.Oldest[summaryRow](summarized(filtered(h, uid, f)), w)
	return rows, total, err
}

// filtered finds the calls of a run, or of a program, by that.
func filtered(h database.Handle, uid string, f Filter) *gorm.DB {
	q := database.Scoped(h, uid)
	if f.ParentID != "" || (f.ResultID != "" && f.ResultID != run.NoResult) {
		q = database.ScopedFound(h, uid)
	}
	q = q.Where("deleted_at IS NULL")
	if f.ResultID != "" {
		q = q.Where("result_id = ?", f.ResultID)
	}
	if f.Version != nil {
		q = q.Where("version = ?", *f.Version)
	}
	if f.ParentID != "" {
		q = q.Where("ptc_call_id = ?", f.ParentID)
	}
	if f.Line > 0 {
		q = q.Where("line = ?", f.Line)
	}
	if f.Status != "" {
		q = q.Where("status = ?", f.Status)
	}
	if f.Toolset != "" {
		q = q.Where("toolset_id = ?", f.Toolset)
	}
	if f.Tool != "" {
		q = q.Where("tool_name = ?", f.Tool)
	}
	if !f.From.IsZero() {
		q = q.Where("created_at >= ?", f.From.UTC())
	}
	if !f.Until.IsZero() {
		q = q.Where("created_at < ?", f.Until.UTC())
	}
	return q
}

func (repository) byIDs(h database.Handle, uid string, callIDs []string) ([]Call, error) {
	return many(database.Scoped(h, uid).Where("call_id IN ? AND deleted_at IS NULL", callIDs))
}

// lastSuccess is the newest call of a method that completed, among so many of
// the user's newest calls.
func (repository) lastSuccess(h database.Handle, uid, toolset, name string, among int) (Call, error) {
	newest := database.Scoped(h, uid).Model(&callRow{}).Select("pk").Order("pk DESC").Limit(among)
	return one(database.Scoped(h, uid).
		Where("pk IN (?) AND toolset_id = ? AND tool_name = ? AND status = ? AND deleted_at IS NULL", newest, toolset, name, Completed).
		Order("pk DESC"))
}

// children counts the calls of a program that have not ended.
func (repository) children(h database.Handle, uid, parentID string) (int64, error) {
	var n int64
	err := database.Scoped(h, uid).Model(&callRow{}).
		Where("ptc_call_id = ? AND status IN ? AND deleted_at IS NULL", parentID, open()).Count(&n).Error
	return n, err
}

// inRun counts the calls of a run that have not ended.
func (repository) inRun(h database.Handle, r run.Ref) (int64, error) {
	var n int64
	err := database.Scoped(h, r.UID).Model(&callRow{}).
		Where("result_id = ? AND version = ? AND status IN ? AND deleted_at IS NULL", r.ResultID, r.Version, open()).Count(&n).Error
	return n, err
}

// over is when the lease of a call is over, as a process finds it.
type over struct {
	now   time.Time
	owner string    // the process, which lives
	idle  time.Time // it has not worked on what was changed before, and is not among what it works on
}

func (o over) condition() (string, []any) {
	return "(" + node.Over + " OR lease_expires_at IS NULL AND lease_owner = ? AND updated_at < ?)", []any{o.now, o.now, o.owner, o.idle}
}

// abandon ends the leases of at most limit calls that a process has, and reports
// whether there was one. A system job: they are of all users.
func (repository) abandon(tx database.Tx, owner string, now time.Time, limit int) (bool, error) {
	keys, err := executingWhere(tx.Handle, limit, "c.lease_owner = ? AND c.lease_expires_at IS NULL", owner)
	if err != nil || len(keys) == 0 {
		return false, err
	}
	return true, database.Unscoped(tx.Handle).Model(&callRow{}).Where("(uid, pk) IN ?", keys).Update("lease_expires_at", now).Error
}

// executingWhere are the keys of open calls of all users with records that meet a
// condition, children before the programs that made them. A record is looked up for
// each call that executes, never the other way round.
func executingWhere(h database.Handle, limit int, condition string, args ...any) ([][]any, error) {
	var found []executingRow
	err := database.Unscoped(h).Where(`(SELECT CASE WHEN `+condition+` THEN 1 ELSE 0 END FROM tool_call_results c
		WHERE c.uid = executing_calls.uid AND c.pk = executing_calls.call_pk AND c.status IN ?) = 1`, append(args, open())...).
		Order("call_pk DESC").Limit(limit).Find(&found).Error
	keys := make([][]any, len(found))
	for i, d := range found {
		keys[i] = []any{d.UID, d.CallPK}
	}
	return keys, err
}

// expired lists calls whose lease is over, children before the programs that made
// them. A system job: the dead process's calls belong to any user.
func (repository) expired(h database.Handle, o over, limit int) ([]Call, error) {
	ended, args := o.condition()
	keys, err := executingWhere(h, limit, ended, args...)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	return many(database.Unscoped(h).Where("(uid, pk) IN ?", keys).Order("pk DESC"))
}

// stillExpired reads a call again under its lock; it is absent when its
// process came back or another reaper was faster.
func (repository) stillExpired(tx database.Tx, uid, callID string, o over) (Call, error) {
	ended, args := o.condition()
	return one(database.Lock(database.Scoped(tx.Handle, uid)).Where("call_id = ? AND status IN ?", callID, open()).Where(ended, args...))
}

// asked reports whether a call waits for the answer to a question, or had waited for
// one when its process died.
func (repository) asked(h database.Handle, c Call) (asked bool, err error) {
	if c.Status != Waiting {
		return false, nil
	}
	return asked, database.Scoped(h, c.UID).Table("approvals").Select("question IS NOT NULL").
		Where("call_id = ?", c.CallID).Order("round DESC").Limit(1).Scan(&asked).Error
}

// postpone moves the end of a lease that has ended.
func (repository) postpone(tx database.Tx, c Call, o over, until time.Time) error {
	ended, args := o.condition()
	return database.Scoped(tx.Handle, c.UID).Model(&callRow{}).
		Where("call_id = ? AND status = ?", c.CallID, Waiting).Where(ended, args...).Update("lease_expires_at", until).Error
}

// adopt gives the calls of models that wait in a run to a process.
func (repository) adopt(tx database.Tx, r run.Ref, owner string) error {
	of := func() *gorm.DB {
		return database.Scoped(tx.Handle, r.UID).Model(&callRow{}).Where("result_id = ? AND version = ? AND deleted_at IS NULL", r.ResultID, r.Version)
	}
	var held []int64 // none of them goes on while the others are looked at
	if err := database.Lock(of()).Where("status = ?", Waiting).Order("pk").Pluck("pk", &held).Error; err != nil {
		return err
	}
	var busy int64
	err := of().Where("status = ? OR status = ? AND ptc_call_id IS NOT NULL", Executing, Waiting).Count(&busy).Error
	if err == nil && busy > 0 {
		err = ErrUnsettled
	}
	if err != nil {
		return err
	}
	return of().Where("status = ?", Waiting).Updates(map[string]any{"lease_owner": owner, "lease_expires_at": nil}).Error
}

// optional is a number that is NULL where there is none.
func optional(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func number(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

func one(q *gorm.DB) (Call, error) {
	var row callRow
	if err := absent(q.Take(&row).Error); err != nil {
		return Call{}, err
	}
	return row.call(), nil
}

func many(q *gorm.DB) ([]Call, error) {
	var rows []callRow
	if err := q.Find(&rows).Error; err != nil {
		return nil, err
	}
	calls := make([]Call, len(rows))
	for i, r := range rows {
		calls[i] = r.call()
	}
	return calls, nil
}

func absent(err error) error {
	if errors.Is(err, database.ErrNotFound) {
		return ErrMissing.With(err)
	}
	return err
}

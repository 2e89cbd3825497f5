package run

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/run/node"
)

// repository is the SQL of this module.
type repository struct{}

type row struct {
	PK             int64 `gorm:"primaryKey"`
	ResultID       string
	Version        int
	Type           string
	UID            string
	Title          string
	ModelName      *string
	TargetType     *string
	TargetID       *string
	Input          *string
	Context        *string
	TplConfig      *string
	RuntimeConfig  *string
	Locale         *string
	ProviderItemID *string
	History        *string
	Errors         *string
	ErrorType      *string
	Warnings       *string
	Handoff        *string
	Toolsets       *string
	Status         string
	PTCEnabled     bool
	EventSeq       int64
	LeaseOwner     *string
	LeaseExpiresAt *time.Time
	CreatedAt      time.Time `gorm:"autoCreateTime:false"`
	UpdatedAt      time.Time `gorm:"autoUpdateTime:false"`
}

// TableName implements gorm's Tabler.
func (row) TableName() string { return "action_results" }

func (r row) run() Run {
	out := Run{
		ResultID: r.ResultID, Version: r.Version, UID: r.UID, Type: r.Type, Title: r.Title,
		Input: database.Text(r.Input), Toolsets: unlist(r.Toolsets), Status: Status(r.Status),
		PTCEnabled: r.PTCEnabled, Model: database.Text(r.ModelName), Errors: unlist(r.Errors), ErrorType: database.Text(r.ErrorType),
		Warnings: unlist(r.Warnings), Handoff: readHandoff(r.Handoff), Asked: r.asked(),
		Seq: r.EventSeq, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if database.Text(r.TargetType) == targetCanvas {
		out.CanvasID = database.Text(r.TargetID)
	}
	if database.Text(r.LeaseOwner) == Outside && r.LeaseExpiresAt != nil {
		out.ExpiresAt = r.LeaseExpiresAt.UTC()
	}
	return out
}

func (r *row) ask(a Asked) {
	r.Locale, r.ProviderItemID = textOf(a.Locale), textOf(a.ModelItemID)
	r.Context, r.TplConfig, r.RuntimeConfig = textOf(string(a.Context)), textOf(string(a.TplConfig)), textOf(string(a.RuntimeConfig))
}

func (r row) asked() Asked {
	return Asked{
		Locale: database.Text(r.Locale), ModelItemID: database.Text(r.ProviderItemID), Context: rawJSON(r.Context), TplConfig: rawJSON(r.TplConfig),
		RuntimeConfig: rawJSON(r.RuntimeConfig),
	}
}

func toRuns(rows []row) []Run {
	runs := make([]Run, len(rows))
	for i, r := range rows {
		runs[i] = r.run()
	}
	return runs
}

func (repository) insert(tx database.Tx, r *row) error {
	return database.Unscoped(tx.Handle).Create(r).Error // the row carries its uid
}

func (repository) get(h database.Handle, uid, resultID string, version *int) (row, error) {
	q := database.Scoped(h, uid).Where("result_id = ?", resultID)
	if version != nil {
		q = q.Where("version = ?", *version)
	}
	var r row
	err := q.Order("version DESC").Take(&r).Error
	return r, err
}

func (repository) list(h database.Handle, uid string, f Filter, w database.Window) ([]row, *int64, error) {
	q := database.Scoped(h, uid).Omit("context", "tpl_config", "runtime_config")
	if f.Status != "" {
		q = q.Where("status = ?", string(f.Status))
	}
	if f.CanvasID != "" {
		q = q.Where("target_type = ? AND target_id = ?", targetCanvas, f.CanvasID)
	}
	if f.Toolset != "" {
		q = q.Where(`EXISTS (SELECT 1 FROM tool_call_results c WHERE c.result_id = action_results.result_id AND c.version = action_results.version
			AND c.uid = action_results.uid AND c.toolset_id = ? AND c.deleted_at IS NULL)`, f.Toolset)
	}
	if f.Text != "" {
		q = q.Where(`LOWER(title) LIKE LOWER(?) ESCAPE '\'`, "%"+literal(f.Text)+"%")
	}
	if !f.From.IsZero() {
		q = q.Where("created_at >= ?", f.From.UTC())
	}
	if !f.Until.IsZero() {
		q = q.Where("created_at < ?", f.Until.UTC())
	}
	return database.Newest[row](q, w)
}

// literal makes a text stand for itself in LIKE.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(text)
}

// advance gives out the next event number of a run that is not over, and
// changes the given columns with it. The row stays locked until the
// transaction ends.
func (rp repository) advance(tx database.Tx, r Ref, columns map[string]any) (int64, error) {
	changes := map[string]any{"event_seq": gorm.Expr("event_seq + 1")}
	maps.Copy(changes, columns)
	var changed []row
	err := database.Scoped(tx.Handle, r.UID).Model(&changed).
		Clauses(clause.Returning{Columns: []clause.Column{{Name: "event_seq"}}}).
		Where("result_id = ? AND version = ? AND status IN ?", r.ResultID, r.Version,
			[]string{string(Waiting), string(Running)}).
		Updates(changes).Error
	if err != nil {
		return 0, err
	}
	if len(changed) == 1 {
		return changed[0].EventSeq, nil
	}
	_, err = rp.get(tx.Handle, r.UID, r.ResultID, &r.Version)
	switch {
	case errors.Is(err, database.ErrNotFound):
		return 0, ErrMissing
	case err != nil:
		return 0, err
	}
	return 0, ErrEnded
}

// open holds the row of a run that is not over until the transaction ends.
func (rp repository) open(tx database.Tx, of Ref) error {
	r, err := rp.lock(tx, of)
	switch {
	case errors.Is(err, database.ErrNotFound):
		return ErrMissing
	case err != nil:
		return err
	case Status(r.Status).Final():
		return ErrEnded
	}
	return nil
}

// expired is a system job: the reaper ends the runs of all users.
func (repository) expired(h database.Handle, owner string, now time.Time, limit int) ([]row, error) {
	var rows []row
	err := database.Unscoped(h).
		Where("status = ? AND (lease_owner IS NULL OR lease_owner <> ?)", string(Running), owner).Where(node.Over, now.UTC(), now.UTC()).
		Order("lease_expires_at").Limit(limit).Find(&rows).Error
	return rows, err
}

// claim is whose a run is, with whom it lives; or until when, of nobody. It is not
// claimed from the process than.
type claim struct {
	owner, than string
	until       *time.Time
}

// takeOver gives a run to another process than its own, which has shown no sign of
// life until a moment.
func (repository) takeOver(tx database.Tx, r Ref, now time.Time, by claim) error {
	q := database.Scoped(tx.Handle, r.UID).Model(&row{}).
		Where("result_id = ? AND version = ? AND status = ?", r.ResultID, r.Version, string(Running)).
		Where("lease_owner IS NULL OR lease_owner <> ?", by.than).Where(node.Over, now.UTC(), now.UTC()).
		Updates(map[string]any{"lease_owner": database.Optional(by.owner), "lease_expires_at": by.until})
	return database.MustAffect(q, ErrTaken)
}

// leave ends the lease of a run that a process has.
func (repository) leave(tx database.Tx, r Ref, owner string, now time.Time) error {
	q := database.Scoped(tx.Handle, r.UID).Model(&row{}).
		Where("result_id = ? AND version = ? AND status = ? AND lease_owner = ?", r.ResultID, r.Version, string(Running), owner).
		Updates(map[string]any{"lease_owner": nil, "lease_expires_at": now.UTC()})
	return database.MustAffect(q, ErrTaken)
}

// abandon ends the lease of every run that a process has. A system job: they are of
// all users.
func (repository) abandon(tx database.Tx, owner string, now time.Time) error {
	return database.Unscoped(tx.Handle).Model(&row{}).Where("lease_owner = ? AND status = ?", owner, string(Running)).
		Updates(map[string]any{"lease_owner": nil, "lease_expires_at": now.UTC()}).Error
}

// mine holds the row of a run that a process works on until the transaction ends.
func (rp repository) mine(tx database.Tx, of Ref, owner string) error {
	r, err := rp.lock(tx, of)
	switch {
	case errors.Is(err, database.ErrNotFound):
		return ErrMissing
	case err != nil:
		return err
	case Status(r.Status).Final():
		return ErrEnded
	case database.Text(r.LeaseOwner) != owner:
		return ErrTaken
	}
	return nil
}

// list writes strings as a JSON array, nothing as NULL.
func list(values []string) *string {
	if len(values) == 0 {
		return nil
	}
	b, err := json.Marshal(values)
	if err != nil {
		return nil // strings always marshal
	}
	return new(string(b))
}

// unlist reads what list wrote.
func unlist(column *string) []string {
	var values []string
	if column != nil && json.Unmarshal([]byte(*column), &values) != nil {
		return []string{*column}
	}
	return values
}

func handoff(h *Handoff) *string {
	if h == nil {
		return nil
	}
	b, err := json.Marshal(h)
	if err != nil {
		return nil // texts always marshal
	}
	return new(storable(string(b)))
}

// readHandoff reads what handoff wrote.
func readHandoff(column *string) *Handoff {
	var h Handoff
	if column == nil || json.Unmarshal([]byte(*column), &h) != nil {
		return nil
	}
	return &h
}

func rawJSON(column *string) json.RawMessage {
	if column == nil {
		return nil
	}
	return json.RawMessage(*column)
}

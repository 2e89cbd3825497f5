package checkpoint

import (
	"time"

	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/node"
)

// repository is the table agent_turns.
type repository struct{}

type row struct {
	PK        int64 `gorm:"primaryKey"`
	UID       string
	ResultID  string
	Version   int
	Step      int
	Body      string
	Continued int
	CreatedAt time.Time `gorm:"autoCreateTime:false"`
}

// TableName implements gorm's Tabler.
func (row) TableName() string { return "agent_turns" }

func (repository) insert(tx database.Tx, r row) error {
	return database.Unscoped(tx.Handle).Create(&r).Error // the row carries its uid
}

func of(h database.Handle, r run.Ref) *gorm.DB {
	return database.Scoped(h, r.UID).Where("result_id = ? AND version = ?", r.ResultID, r.Version)
}

func (repository) steps(h database.Handle, r run.Ref) (rows []row, err error) {
	return rows, of(h, r).Order("step").Find(&rows).Error
}

func (repository) continued(tx database.Tx, r run.Ref) error {
	q := of(tx.Handle, r).Model(&row{}).Where("step = 0").Update("continued", gorm.Expr("continued + 1"))
	return database.MustAffect(q, ErrNone)
}

func (repository) drop(tx database.Tx, r run.Ref) error { return of(tx.Handle, r).Delete(&row{}).Error }

// orphans are the turns of runs whose process is gone. A system job: they are of
// all users.
func (repository) orphans(h database.Handle, now time.Time, limit int) (refs []run.Ref, err error) {
	var rows []row
	err = database.Unscoped(h).Where(`step = 0 AND EXISTS (SELECT 1 FROM action_results r WHERE r.uid = agent_turns.uid
		AND r.result_id = agent_turns.result_id AND r.version = agent_turns.version AND r.status = ? AND `+node.Over+`)`,
		string(run.Running), now.UTC(), now.UTC()).Order("pk").Limit(limit).Find(&rows).Error
	for _, r := range rows {
		refs = append(refs, run.Ref{UID: r.UID, ResultID: r.ResultID, Version: r.Version})
	}
	return refs, err
}

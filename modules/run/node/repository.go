package node

import (
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
)

// Over is when the lease of a call or a run is over, at a moment that is both of its
// arguments: its own moment has passed, or it has none and its process is gone. What
// has neither a moment nor a process has no lease.
const Over = `(lease_expires_at < ? OR lease_expires_at IS NULL AND lease_owner IS NOT NULL AND NOT EXISTS (
	SELECT 1 FROM nodes WHERE nodes.node_id = lease_owner AND nodes.expires_at >= ?))`

// repository is the table nodes. It belongs to no user.
type repository struct{}

type row struct {
	NodeID    string `gorm:"primaryKey"`
	Address   string
	Version   string
	Role      string
	Capacity  int
	Running   int
	Queued    int
	MaxPaused int
	Paused    int
	Draining  bool
	Drain     bool
	StartedAt time.Time
	ExpiresAt time.Time
}

// TableName implements gorm's Tabler.
func (row) TableName() string { return "nodes" }

func rowOf(n Node) row {
	return row{
		NodeID: n.ID, Address: n.Address, Version: n.Version, Role: n.Role, Capacity: n.Load.Capacity, Running: n.Load.Running,
		Queued: n.Load.Queued, MaxPaused: n.Load.MaxPaused, Paused: n.Load.Paused, Draining: n.Draining, StartedAt: n.StartedAt, ExpiresAt: n.ExpiresAt,
	}
}

func (r row) node() Node {
	return Node{
		ID: r.NodeID, Address: r.Address, Version: r.Version, Role: r.Role,
		Load:     Load{Capacity: r.Capacity, Running: r.Running, Queued: r.Queued, MaxPaused: r.MaxPaused, Paused: r.Paused},
		Draining: r.Draining, Asked: r.Drain, StartedAt: r.StartedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(),
	}
}

func living(h database.Handle, now time.Time) *gorm.DB {
	return database.Unscoped(h).Where("expires_at >= ?", now)
}

func (repository) get(h database.Handle, id string, now time.Time) (Node, error) {
	var r row
	err := living(h, now).Where("node_id = ?", id).Take(&r).Error
	return r.node(), err
}

func (repository) live(h database.Handle, now time.Time) ([]Node, error) {
	var rows []row
	err := living(h, now).Order("started_at, node_id").Find(&rows).Error
	nodes := make([]Node, len(rows))
	for i, r := range rows {
		nodes[i] = r.node()
	}
	return nodes, err
}

func (repository) count(tx database.Tx, now time.Time) (n int64, err error) {
	return n, living(tx.Handle, now).Model(&row{}).Count(&n).Error
}

// join begins a lease, also that of a process that has lost the one before.
func (repository) join(tx database.Tx, n Node) error {
	return database.Unscoped(tx.Handle).Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "node_id"}}, UpdateAll: true}).Create(new(rowOf(n))).Error
}

// renew moves the end of a lease on that is not over, and reports whether somebody
// wants the process to end.
func (repository) renew(tx database.Tx, n Node, now time.Time) (bool, error) {
	r := rowOf(n)
	q := living(tx.Handle, now).Model(&row{}).Where("node_id = ?", n.ID).
		Select("capacity", "running", "queued", "max_paused", "paused", "draining", "expires_at").Updates(&r)
	if err := database.MustAffect(q, errOver); err != nil {
		return false, err
	}
	var asked bool
	err := database.Unscoped(tx.Handle).Model(&row{}).Where("node_id = ?", n.ID).Select("drain").Take(&asked).Error
	return asked, err
}

func (repository) ask(tx database.Tx, id string, now time.Time) error {
	return database.MustAffect(living(tx.Handle, now).Model(&row{}).Where("node_id = ?", id).Update("drain", true), ErrGone)
}

func (repository) remove(tx database.Tx, id string) error {
	return database.Unscoped(tx.Handle).Where("node_id = ?", id).Delete(&row{}).Error
}

// purge forgets processes that are gone for long.
func (repository) purge(tx database.Tx, before time.Time) error {
	return database.Unscoped(tx.Handle).Where("expires_at < ?", before).Delete(&row{}).Error
}

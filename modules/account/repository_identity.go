package account

import (
	"cmp"
	"time"

	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/database"
)

type identityRow struct {
	PK         int64 `gorm:"primaryKey"`
	Issuer     string
	Tenant     string
	Subject    string
	UID        string
	Plan       string
	PlanAt     time.Time
	LastSeenAt time.Time
	CreatedAt  time.Time
}

func (identityRow) TableName() string { return "external_identities" }

func (r identityRow) identity() Identity { return Identity{r.Issuer, r.Tenant, r.Subject} }

func of(q *gorm.DB, i Identity) *gorm.DB {
	return q.Where("issuer = ? AND tenant = ? AND subject = ?", i.Issuer, i.Tenant, i.Subject)
}

// known is a row with what its user's row says.
type known struct {
	Row        identityRow `gorm:"embedded"`
	DisabledAt *time.Time
}

// identity finds the user of a person: who that is follows from it. Without
// one it returns database.ErrNotFound.
func (repository) identity(h database.Handle, i Identity) (known, error) {
	var k known
	err := of(database.Unscoped(h).Table("external_identities"), i).
		Select("external_identities.*, users.disabled_at").Joins("JOIN users ON users.uid = external_identities.uid").Take(&k).Error
	return k, err
}

// identities lists where users come from, by their uids.
func (repository) identities(h database.Handle) (map[string]Identity, error) {
	var rows []identityRow
	// For operators: the list of all tenants.
	err := database.Unscoped(h).Find(&rows).Error
	from := make(map[string]Identity, len(rows))
	for _, r := range rows {
		from[r.UID] = r.identity()
	}
	return from, err
}

// countIdentities counts the people of all hosts, and lets nobody add one until
// the transaction ends.
func (repository) countIdentities(tx database.Tx) (int64, error) {
	q := database.Unscoped(tx.Handle)
	if tx.Dialect() == database.Postgres { // the writers of SQLite are one after the other
		if err := q.Exec("LOCK TABLE external_identities IN SHARE ROW EXCLUSIVE MODE").Error; err != nil {
			return 0, err
		}
	}
	var n int64
	return n, q.Model(&identityRow{}).Count(&n).Error
}

func (repository) insertIdentity(tx database.Tx, row identityRow) error {
	return database.Unscoped(tx.Handle).Create(&row).Error
}

func (repository) seen(tx database.Tx, uid string, at time.Time) error {
	err := database.Scoped(tx.Handle, uid).Model(&identityRow{}).Update("last_seen_at", at).Error
	return cmp.Or(err, changed(tx, uid))
}

// plan keeps what a token says about the plan, and reports whether that is the
// newest word.
func (repository) plan(tx database.Tx, uid, plan string, issued time.Time) (newest bool, err error) {
	q := database.Scoped(tx.Handle, uid).Model(&identityRow{}).Where("plan_at <= ?", issued).Updates(map[string]any{"plan": plan, "plan_at": issued})
	return q.RowsAffected == 1, q.Error
}

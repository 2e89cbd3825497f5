package server

import (
	"cmp"
	"errors"
	"time"

	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/wake"
)

// repository is the tables mcp_servers, mcp_lists and, but for the tokens,
// mcp_credentials.
type repository struct{}

type serverRow struct {
	PK        int64 `gorm:"primaryKey"`
	Name      string
	Type      string
	IsGlobal  bool
	UID       *string
	URL       *string
	Command   *string
	Args      *string
	Env       *string
	Headers   *string
	Config    *string
	Enabled   bool
	Version   string
	Client    *string
	Prices    *string
	Pins      *string
	Source    string
	CreatedAt time.Time
	UpdatedAt time.Time
	DeletedAt *time.Time
}

func (serverRow) TableName() string { return "mcp_servers" }

type listRow struct {
	PK       int64 `gorm:"primaryKey"`
	ServerPK int64
	UID      string
	Version  string
	List     string
	ListedAt time.Time
}

func (listRow) TableName() string { return "mcp_lists" }

type credentialRow struct {
	PK           int64 `gorm:"primaryKey"`
	ServerPK     int64
	UID          string
	Version      string
	Placeholders *string
	Tokens       *string
	Issuer       string
	Scopes       string
	ExpiresAt    *time.Time
	UpdatedAt    time.Time
}

func (credentialRow) TableName() string { return "mcp_credentials" }

// everybody is who has the servers that all share.
const everybody = ""

func changed(tx database.Tx, uid string) error { return tx.Notify(wake.Topic(Changed, uid)) }

// visible lists the servers that a user may use or has switched off, by name; the
// user's own come first.
func (repository) visible(h database.Handle, uid string) ([]serverRow, error) {
	var rows []serverRow
	return rows, database.Unscoped(h).Where("(uid = ? OR (uid IS NULL AND is_global)) AND deleted_at IS NULL", uid).
		Order("name, is_global, pk").Find(&rows).Error
}

// owned finds a user's own server, or, for everybody, one that all share.
func (repository) owned(h database.Handle, uid, name string) (serverRow, error) {
	var row serverRow
	q := database.Scoped(h, uid)
	if uid == everybody {
		q = database.Unscoped(h).Where("uid IS NULL AND is_global")
	}
	err := q.Where("name = ? AND deleted_at IS NULL", name).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return row, missing(name)
	}
	return row, err
}

// all lists the servers of all users and of everybody, for operators.
func (repository) all(h database.Handle) ([]serverRow, error) {
	var rows []serverRow
	return rows, database.Unscoped(h).Where("deleted_at IS NULL").Order("name, is_global DESC, uid").Find(&rows).Error
}

func (repository) count(h database.Handle, uid string) (n int64, err error) {
	return n, database.Scoped(h, uid).Model(&serverRow{}).Where("deleted_at IS NULL").Count(&n).Error
}

func (repository) insert(tx database.Tx, row *serverRow) error {
	return cmp.Or(database.Unscoped(tx.Handle).Create(row).Error, changed(tx, database.Text(row.UID)))
}

// update changes a server that the caller has found as its owner's.
func (repository) update(tx database.Tx, row serverRow, columns map[string]any) error {
	q := database.Unscoped(tx.Handle).Model(&serverRow{}).Where("pk = ? AND deleted_at IS NULL", row.PK).Updates(columns)
	return cmp.Or(database.MustAffect(q, missing(row.Name)), changed(tx, database.Text(row.UID)))
}

// remove deletes a server that the caller has found as its owner's, with all that
// was kept for it.
func (repository) remove(tx database.Tx, row serverRow) error {
	q := database.Unscoped(tx.Handle).Where("pk = ?", row.PK).Delete(&serverRow{})
	return cmp.Or(database.MustAffect(q, missing(row.Name)), changed(tx, database.Text(row.UID)))
}

// removeDeleted makes room for a name that another program marked as deleted.
func (repository) removeDeleted(tx database.Tx, uid, name string) error {
	if uid == everybody {
		return nil // the names of these are unique only while they are there
	}
	return database.Scoped(tx.Handle, uid).Where("name = ? AND deleted_at IS NOT NULL", name).Delete(&serverRow{}).Error
}

// credentials are what a user has at servers, by server.
func (repository) credentials(h database.Handle, uid string) (map[int64]credentialRow, error) {
	var rows []credentialRow
	err := database.Scoped(h, uid).Find(&rows).Error
	found := make(map[int64]credentialRow, len(rows))
	for _, r := range rows {
		found[r.ServerPK] = r
	}
	return found, err
}

// savePlaceholders writes a user's values for a server.
func (repository) savePlaceholders(tx database.Tx, row credentialRow) error {
	err := database.Unscoped(tx.Handle).Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "server_pk"}, {Name: "uid"}}, DoUpdates: clause.AssignmentColumns([]string{"version", "placeholders", "updated_at"}),
	}).Create(&row).Error
	return cmp.Or(err, changed(tx, row.UID))
}

func (repository) list(h database.Handle, server int64, uid string) (listRow, error) {
	var row listRow
	err := database.Scoped(h, uid).Where("server_pk = ?", server).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return listRow{}, nil
	}
	return row, err
}

// saveList writes a list in place of the one before.
func (repository) saveList(tx database.Tx, row listRow) error {
	return database.Unscoped(tx.Handle).Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "server_pk"}, {Name: "uid"}}, DoUpdates: clause.AssignmentColumns([]string{"version", "list", "listed_at"}),
	}).Create(&row).Error
}

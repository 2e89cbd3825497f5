package oauth

import (
	"cmp"
	"errors"
	"time"

	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// repository is the tables mcp_authorizations and mcp_clients, and the tokens in
// mcp_credentials.
type repository struct{}

type grantRow struct {
	PK              int64 `gorm:"primaryKey"`
	ServerPK        int64
	UID             string
	Version         string
	Tokens          *string
	Issuer          string
	Resource        string
	Scopes          string
	Wanted          string
	ExpiresAt       *time.Time
	RefreshingUntil *time.Time
	UpdatedAt       time.Time
}

func (grantRow) TableName() string { return "mcp_credentials" }

type flowRow struct {
	PK        int64 `gorm:"primaryKey"`
	State     string
	UID       string
	ServerPK  int64
	Browser   string
	Code      string
	Flow      string
	Attempts  int
	ExpiresAt time.Time
}

func (flowRow) TableName() string { return "mcp_authorizations" }

type clientRow struct {
	PK          int64 `gorm:"primaryKey"`
	Issuer      string
	RedirectURI string
	Client      string
	ExpiresAt   *time.Time
	CreatedAt   time.Time
}

func (clientRow) TableName() string { return "mcp_clients" }

func changed(tx database.Tx, uid string) error { return tx.Notify(wake.Topic(server.Changed, uid)) }

// errGone says that a row is not there any more, or not as it was read.
var errGone = errors.New("the row has changed")

// grant is what a user has at a server; the zero row for nothing.
func (repository) grant(h database.Handle, k key) (grantRow, error) {
	var row grantRow
	err := database.Scoped(h, k.uid).Where("server_pk = ?", k.server).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return grantRow{}, nil
	}
	return row, err
}

// saveGrant writes new tokens of a user's in place of those before.
func (repository) saveGrant(tx database.Tx, row grantRow) error {
	err := database.Unscoped(tx.Handle).Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "server_pk"}, {Name: "uid"}},
		DoUpdates: clause.AssignmentColumns([]string{"version", "tokens", "issuer", "resource", "scopes", "wanted", "expires_at", "refreshing_until", "updated_at"}),
	}).Create(&row).Error
	return cmp.Or(err, changed(tx, row.UID))
}

// saveWanted notes the scopes that a server asked a user for.
func (repository) saveWanted(tx database.Tx, row grantRow) error {
	return database.Unscoped(tx.Handle).Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "server_pk"}, {Name: "uid"}}, DoUpdates: clause.AssignmentColumns([]string{"wanted"}),
	}).Create(&row).Error
}

// claim makes the caller the one who refreshes tokens as they were read, unless
// somebody else does so already. Exactly one caller gets true.
func (repository) claim(tx database.Tx, row grantRow, now, until time.Time) (bool, error) {
	q := database.Scoped(tx.Handle, row.UID).Model(&grantRow{}).
		Where("pk = ? AND tokens = ? AND (refreshing_until IS NULL OR refreshing_until < ?)", row.PK, row.Tokens, now).
		Updates(map[string]any{"refreshing_until": until})
	return q.RowsAffected == 1, q.Error
}

// replace writes what became of tokens that the caller has claimed, unless they
// are others by now.
func (repository) replace(tx database.Tx, row grantRow, columns map[string]any) error {
	q := database.Scoped(tx.Handle, row.UID).Model(&grantRow{}).Where("pk = ? AND tokens = ?", row.PK, row.Tokens).Updates(columns)
	return cmp.Or(database.MustAffect(q, errGone), changed(tx, row.UID))
}

// insertFlow begins a flow; those of the user and server that came before end.
func (repository) insertFlow(tx database.Tx, row flowRow) error {
	err := database.Scoped(tx.Handle, row.UID).Where("server_pk = ?", row.ServerPK).Delete(&flowRow{}).Error
	return cmp.Or(err, database.Unscoped(tx.Handle).Create(&row).Error)
}

// flow finds a flow by the hash of its state: who the user is follows from it.
func (repository) flow(h database.Handle, state string, now time.Time) (flowRow, error) {
	var row flowRow
	return row, database.Unscoped(h).Where("state = ? AND code = '' AND expires_at > ?", state, now).Take(&row).Error
}

// take ends a flow. One of several callers succeeds.
func (repository) take(tx database.Tx, row flowRow) error {
	return database.MustAffect(database.Scoped(tx.Handle, row.UID).Where("pk = ?", row.PK).Delete(&flowRow{}), errGone)
}

// waiting finds the flow of a user that waits for its code, and counts the
// attempt.
func (repository) waiting(tx database.Tx, k key, now time.Time) (flowRow, error) {
	var row flowRow
	err := database.Lock(database.Scoped(tx.Handle, k.uid)).Where("server_pk = ? AND code <> '' AND expires_at > ?", k.server, now).Take(&row).Error
	if err != nil {
		return row, err
	}
	return row, database.Scoped(tx.Handle, k.uid).Model(&flowRow{}).Where("pk = ?", row.PK).Update("attempts", row.Attempts+1).Error
}

// purge deletes flows that are over.
func (repository) purge(tx database.Tx, now time.Time) error {
	return database.Unscoped(tx.Handle).Where("expires_at < ?", now).Delete(&flowRow{}).Error
}

// registered is a client that this server registered; the zero row for none.
func (repository) registered(h database.Handle, issuer, redirect string, now time.Time) (clientRow, error) {
	var row clientRow
	err := database.Unscoped(h).Where("issuer = ? AND redirect_uri = ? AND (expires_at IS NULL OR expires_at > ?)", issuer, redirect, now).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return clientRow{}, nil
	}
	return row, err
}

// saveClient writes a client in place of one that has expired.
func (repository) saveClient(tx database.Tx, row clientRow) error {
	return database.Unscoped(tx.Handle).Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "issuer"}, {Name: "redirect_uri"}}, DoUpdates: clause.AssignmentColumns([]string{"client", "expires_at", "created_at"}),
	}).Create(&row).Error
}

// forgetClient deletes a client that its authorization server does not know any
// more.
func (repository) forgetClient(tx database.Tx, issuer, redirect string) error {
	return database.Unscoped(tx.Handle).Where("issuer = ? AND redirect_uri = ?", issuer, redirect).Delete(&clientRow{}).Error
}

package oauth

import (
	"cmp"
	"errors"
	"time"

	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/wake"
)

// repository is the tables of a kind, and mcp_clients.
type repository struct{ kind Kind }

type grantRow struct {
	PK              int64 `gorm:"primaryKey"`
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

type flowRow struct {
	PK        int64 `gorm:"primaryKey"`
	State     string
	UID       string
	Browser   string
	Code      string
	Flow      string
	Attempts  int
	ExpiresAt time.Time
}

type clientRow struct {
	PK          int64 `gorm:"primaryKey"`
	Issuer      string
	RedirectURI string
	Client      string
	ExpiresAt   *time.Time
	CreatedAt   time.Time
}

func (clientRow) TableName() string { return "mcp_clients" }

func (r repository) changed(tx database.Tx, uid string) error {
	return tx.Notify(wake.Topic(r.kind.Changed, uid))
}

// errGone says that a row is not there any more, or not as it was read.
var errGone = errors.New("the row has changed")

// where finds the rows about a target.
func (r repository) where(of any) map[string]any { return map[string]any{r.kind.Column: of} }

// grant is what a user has at a target; the zero row for nothing.
func (r repository) grant(h database.Handle, k key) (grantRow, error) {
	var row grantRow
	err := database.Scoped(h, k.uid).Table(r.kind.Grants).Where(r.where(k.of)).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return grantRow{}, nil
	}
	return row, err
}

// connected lists the targets that a user has tokens for, where their ids are texts.
func (r repository) connected(h database.Handle, uid string) ([]string, error) {
	var ids []string
	return ids, database.Scoped(h, uid).Table(r.kind.Grants).Where("tokens IS NOT NULL").Order(r.kind.Column).Pluck(r.kind.Column, &ids).Error
}

// held counts the users who have tokens for a target.
func (r repository) held(h database.Handle, of any) (n int64, err error) {
	return n, database.Unscoped(h).Table(r.kind.Grants).Where(r.where(of)).Where("tokens IS NOT NULL").Count(&n).Error
}

// forget deletes what users have at a target.
func (r repository) forget(tx database.Tx, of any) error {
	err := database.Unscoped(tx.Handle).Table(r.kind.Flows).Where(r.where(of)).Delete(&flowRow{}).Error
	return cmp.Or(err, database.Unscoped(tx.Handle).Table(r.kind.Grants).Where(r.where(of)).Delete(&grantRow{}).Error, r.changed(tx, ""))
}

// saveGrant writes new tokens of a user's in place of those before.
func (r repository) saveGrant(tx database.Tx, of any, row grantRow) error {
	return cmp.Or(r.save(tx, of, row, "version", "tokens", "issuer", "resource", "scopes", "wanted", "expires_at", "refreshing_until", "updated_at"), r.changed(tx, row.UID))
}

// saveWanted notes the scopes that a target asked a user for.
func (r repository) saveWanted(tx database.Tx, of any, row grantRow) error {
	return r.save(tx, of, row, "wanted")
}

// save writes a row, or these columns of the one that is there.
func (r repository) save(tx database.Tx, of any, row grantRow, columns ...string) error {
	return database.Unscoped(tx.Handle).Table(r.kind.Grants).Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: r.kind.Column}, {Name: "uid"}}, DoUpdates: clause.AssignmentColumns(columns),
	}).Create(map[string]any{
		r.kind.Column: of, "uid": row.UID, "version": row.Version, "tokens": row.Tokens, "issuer": row.Issuer, "resource": row.Resource, "scopes": row.Scopes,
		"wanted": row.Wanted, "expires_at": row.ExpiresAt, "refreshing_until": row.RefreshingUntil, "updated_at": row.UpdatedAt,
	}).Error
}

// claim makes the caller the one who refreshes tokens as they were read, unless
// somebody else does so already. Exactly one caller gets true.
func (r repository) claim(tx database.Tx, row grantRow, now, until time.Time) (bool, error) {
	q := database.Scoped(tx.Handle, row.UID).Table(r.kind.Grants).
		Where("pk = ? AND tokens = ? AND (refreshing_until IS NULL OR refreshing_until < ?)", row.PK, row.Tokens, now).
		Updates(map[string]any{"refreshing_until": until})
	return q.RowsAffected == 1, q.Error
}

// replace writes what became of tokens that the caller has claimed, unless they
// are others by now.
func (r repository) replace(tx database.Tx, row grantRow, columns map[string]any) error {
	q := database.Scoped(tx.Handle, row.UID).Table(r.kind.Grants).Where("pk = ? AND tokens = ?", row.PK, row.Tokens).Updates(columns)
	return cmp.Or(database.MustAffect(q, errGone), r.changed(tx, row.UID))
}

// insertFlow begins a flow; those of the user and target that came before end.
func (r repository) insertFlow(tx database.Tx, of any, row flowRow) error {
	err := database.Scoped(tx.Handle, row.UID).Table(r.kind.Flows).Where(r.where(of)).Delete(&flowRow{}).Error
	return cmp.Or(err, database.Unscoped(tx.Handle).Table(r.kind.Flows).Create(map[string]any{
		r.kind.Column: of, "state": row.State, "uid": row.UID, "browser": row.Browser, "code": row.Code, "flow": row.Flow, "attempts": row.Attempts, "expires_at": row.ExpiresAt,
	}).Error)
}

// flow finds a flow by the hash of its state: who the user is follows from it.
func (r repository) flow(h database.Handle, state string, now time.Time) (flowRow, error) {
	var row flowRow
	return row, database.Unscoped(h).Table(r.kind.Flows).Where("state = ? AND code = '' AND expires_at > ?", state, now).Take(&row).Error
}

// take ends a flow. One of several callers succeeds.
func (r repository) take(tx database.Tx, row flowRow) error {
	return database.MustAffect(database.Scoped(tx.Handle, row.UID).Table(r.kind.Flows).Where("pk = ?", row.PK).Delete(&flowRow{}), errGone)
}

// waiting finds the flow of a user that waits for its code, and counts the
// attempt.
func (r repository) waiting(tx database.Tx, k key, now time.Time) (flowRow, error) {
	var row flowRow
	err := database.Lock(database.Scoped(tx.Handle, k.uid)).Table(r.kind.Flows).Where(r.where(k.of)).Where("code <> '' AND expires_at > ?", now).Take(&row).Error
	if err != nil {
		return row, err
	}
	return row, database.Scoped(tx.Handle, k.uid).Table(r.kind.Flows).Where("pk = ?", row.PK).Update("attempts", row.Attempts+1).Error
}

// purge deletes flows that are over, and clients by which nobody has tokens.
func (r repository) purge(tx database.Tx, redirect string, now time.Time) error {
	used := database.Unscoped(tx.Handle).Table(r.kind.Grants).Select("issuer")
	return cmp.Or(
		database.Unscoped(tx.Handle).Table(r.kind.Flows).Where("expires_at < ?", now).Delete(&flowRow{}).Error,
		database.Unscoped(tx.Handle).Where("redirect_uri = ? AND issuer NOT IN (?)", redirect, used).Delete(&clientRow{}).Error,
	)
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

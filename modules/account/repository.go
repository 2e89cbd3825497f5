package account

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
)

// repository is the tables users and user_api_keys.
type repository struct{}

type userRow struct {
	PK            int64 `gorm:"primaryKey"`
	UID           string
	Name          string
	Email         *string
	HasBetaAccess bool
	Role          string
	Password      *string
	DisabledAt    *time.Time
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

func (userRow) TableName() string { return "users" }

// The values of users.role.
const roleAdmin, roleUser = "admin", "user"

func (r userRow) user() User {
	return User{
		UID: r.UID, Name: r.Name, Email: database.Text(r.Email), Disabled: r.DisabledAt != nil, Admin: r.Role == roleAdmin, CreatedAt: r.CreatedAt.UTC(),
	}
}

type keyRow struct {
	PK         int64 `gorm:"primaryKey"`
	KeyID      string
	KeyHash    string
	KeyPrefix  string
	UID        string
	Name       string
	Scope      *string
	Scopes     string
	Model      string
	LastUsedAt *time.Time
	ExpiresAt  *time.Time
	CreatedAt  time.Time
	RevokedAt  *time.Time
}

func (keyRow) TableName() string { return "user_api_keys" }

func (r keyRow) key() (Key, error) {
	k := Key{
		ID: r.KeyID, Name: r.Name, Prefix: r.KeyPrefix, UID: r.UID, Scope: actor.Scope(database.Text(r.Scope)), CreatedAt: r.CreatedAt.UTC(),
		LastUsedAt: utc(r.LastUsedAt), ExpiresAt: utc(r.ExpiresAt), Model: r.Model,
	}
	var unknown string
	if r.Scopes != "" {
		k.Rights, unknown = actor.ParseRights(strings.Split(r.Scopes, ","))
	}
	if unknown != "" { // what it may not do is not known
		return Key{}, fmt.Errorf("key %s has the scope %q, which there is not", r.KeyID, unknown)
	}
	return k, nil
}

func keysOf(rows []keyRow) ([]Key, error) {
	keys := make([]Key, len(rows))
	for i, r := range rows {
		var err error
		if keys[i], err = r.key(); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func (repository) insertUser(tx database.Tx, row userRow) error {
	return database.Unscoped(tx.Handle).Create(&row).Error
}

func (repository) user(h database.Handle, uid string) (User, error) {
	return oneUser(database.Scoped(h, uid))
}

func (repository) userByName(h database.Handle, name string) (User, error) {
	// For operators: names are what they know users by.
	return oneUser(database.Unscoped(h).Where("name = ?", name))
}

func oneUser(q *gorm.DB) (User, error) {
	var row userRow
	err := q.Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return User{}, ErrUserMissing
	}
	return row.user(), err
}

func (repository) users(h database.Handle) ([]User, error) {
	var rows []userRow
	// For operators: the list of all tenants.
	if err := database.Unscoped(h).Order("pk").Find(&rows).Error; err != nil {
		return nil, err
	}
	users := make([]User, len(rows))
	for i, r := range rows {
		users[i] = r.user()
	}
	return users, nil
}

// disable sets or clears since when a user is refused.
func (repository) disable(tx database.Tx, uid string, at *time.Time) error {
	err := database.MustAffect(database.Scoped(tx.Handle, uid).Model(&userRow{}).Update("disabled_at", at), ErrUserMissing)
	return cmp.Or(err, changed(tx, uid))
}

func (repository) insertKey(tx database.Tx, row keyRow) error {
	return database.Unscoped(tx.Handle).Create(&row).Error
}

// byHash finds the key somebody presented: who that is follows from it.
func (r repository) byHash(h database.Handle, hash string) (Key, error) {
	return r.oneKey(database.Unscoped(h).Where("user_api_keys.key_hash = ?", hash))
}

// byID finds a key that was presented before.
func (r repository) byID(h database.Handle, uid, keyID string) (Key, error) {
	// The tables that are joined both have a column uid.
	return r.oneKey(database.Unscoped(h).Where("user_api_keys.uid = ? AND user_api_keys.key_id = ?", uid, keyID))
}

// owned is a key with what its user's row says.
type owned struct {
	Row  keyRow `gorm:"embedded"`
	Role string
}

// oneKey finds a key that is not revoked, of a user who is not disabled.
func (repository) oneKey(q *gorm.DB) (Key, error) {
	var found owned
	err := q.Table("user_api_keys").Select("user_api_keys.*, users.role").
		Joins("JOIN users ON users.uid = user_api_keys.uid").Where("user_api_keys.revoked_at IS NULL AND users.disabled_at IS NULL").Take(&found).Error
	if errors.Is(err, database.ErrNotFound) {
		return Key{}, ErrBadKey
	}
	if err != nil {
		return Key{}, err
	}
	k, err := found.Row.key()
	k.Admin = found.Role == roleAdmin
	return k, err
}

// ownKeys lists the keys a user made, the newest first; those of sandboxes are
// not the user's business.
func (repository) ownKeys(h database.Handle, uid string) ([]Key, error) {
	var rows []keyRow
	err := database.Scoped(h, uid).Where("revoked_at IS NULL AND scope IS NULL").Order("pk DESC").Find(&rows).Error
	if err != nil {
		return nil, err
	}
	return keysOf(rows)
}

func (repository) rename(tx database.Tx, uid, keyID, name string) error {
	return database.MustAffect(database.Scoped(tx.Handle, uid).Model(&keyRow{}).
		Where("key_id = ? AND revoked_at IS NULL AND scope IS NULL", keyID).Update("name", name), ErrKeyMissing)
}

func (repository) chooseModel(tx database.Tx, uid, keyID, model string) error {
	err := database.MustAffect(database.Scoped(tx.Handle, uid).Model(&keyRow{}).
		Where("key_id = ? AND revoked_at IS NULL AND scope IS NULL", keyID).Update("model", model), ErrKeyMissing)
	return cmp.Or(err, changed(tx, uid))
}

func (repository) revoke(tx database.Tx, uid, keyID string, at time.Time) error {
	err := database.MustAffect(database.Scoped(tx.Handle, uid).Model(&keyRow{}).
		Where("key_id = ? AND revoked_at IS NULL", keyID).Update("revoked_at", at), ErrKeyMissing)
	return cmp.Or(err, changed(tx, uid))
}

func (repository) touch(tx database.Tx, uid, keyID string, at time.Time) error {
	err := database.Scoped(tx.Handle, uid).Model(&keyRow{}).Where("key_id = ?", keyID).Update("last_used_at", at).Error
	return cmp.Or(err, changed(tx, uid))
}

// purge deletes temporary keys that expired before a moment.
func (repository) purge(tx database.Tx, before time.Time) (int64, error) {
	// A system job over all users; a user's own keys stay for their history.
	q := database.Unscoped(tx.Handle).Where("scope IS NOT NULL AND expires_at < ?", before).Delete(&keyRow{})
	return q.RowsAffected, q.Error
}

// revokeSandbox ends keys of sandboxes by their name.
func (repository) revokeSandbox(tx database.Tx, uid, name string, at time.Time) error {
	err := database.Scoped(tx.Handle, uid).Model(&keyRow{}).
		Where("name = ? AND scope IS NOT NULL AND revoked_at IS NULL", name).Update("revoked_at", at).Error
	return cmp.Or(err, changed(tx, uid))
}

package login

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
)

// repository is the tables user_sessions and one_time_codes.
type repository struct{}

type sessionRow struct {
	PK         int64 `gorm:"primaryKey"`
	SessionID  string
	UID        string
	Method     string
	KeyID      string
	UserAgent  string
	IP         string
	CreatedAt  time.Time
	LastSeenAt time.Time
	ExpiresAt  time.Time
	RevokedAt  *time.Time
}

func (sessionRow) TableName() string { return "user_sessions" }

// keyed is a session with what its key may do.
type keyed struct {
	Row    sessionRow `gorm:"embedded"`
	Scopes string
}

func (k keyed) session() (Session, error) {
	r := k.Row
	s := Session{
		ID: r.SessionID, UID: r.UID, Method: r.Method, KeyID: r.KeyID, UserAgent: r.UserAgent, IP: r.IP,
		CreatedAt: r.CreatedAt.UTC(), LastSeenAt: r.LastSeenAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(),
	}
	var unknown string
	if k.Scopes != "" {
		s.Rights, unknown = actor.ParseRights(strings.Split(k.Scopes, ","))
	}
	if unknown != "" {
		return Session{}, errors.New("a key has a scope that there is not: " + unknown)
	}
	return s, nil
}

// counting are the sessions that have not ended, nor the keys they were begun
// with.
func counting(q *gorm.DB, now time.Time) *gorm.DB {
	return q.Table("user_sessions").Select("user_sessions.*, COALESCE(k.scopes, '') AS scopes").
		Joins("LEFT JOIN user_api_keys k ON k.key_id = user_sessions.key_id").
		Where("user_sessions.revoked_at IS NULL AND user_sessions.expires_at > ?", now).
		Where("user_sessions.key_id = '' OR (k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > ?))", now)
}

func (repository) insert(tx database.Tx, s Session) error {
	return database.Unscoped(tx.Handle).Create(&sessionRow{
		SessionID: s.ID, UID: s.UID, Method: s.Method, KeyID: s.KeyID, UserAgent: s.UserAgent, IP: s.IP,
		CreatedAt: s.CreatedAt, LastSeenAt: s.LastSeenAt, ExpiresAt: s.ExpiresAt,
	}).Error
}

// live finds the session that a token names: who that is follows from it.
func (repository) live(h database.Handle, id string, now time.Time) (Session, error) {
	var k keyed
	err := counting(database.Unscoped(h), now).Where("user_sessions.session_id = ?", id).Take(&k).Error
	if errors.Is(err, database.ErrNotFound) {
		return Session{}, ErrMissing
	}
	if err != nil {
		return Session{}, err
	}
	return k.session()
}

func (repository) list(h database.Handle, uid string, now time.Time) ([]Session, error) {
	var rows []keyed
	// The two tables that are joined both have a column uid.
	err := counting(database.Unscoped(h).Where("user_sessions.uid = ?", uid), now).Order("user_sessions.pk DESC").Limit(MaxLive).Find(&rows).Error
	list := make([]Session, len(rows))
	for i, r := range rows {
		var bad error
		list[i], bad = r.session()
		err = cmp.Or(err, bad)
	}
	return list, err
}

func (repository) touch(tx database.Tx, uid, id string, at time.Time) error {
	err := database.Scoped(tx.Handle, uid).Model(&sessionRow{}).Where("session_id = ?", id).Update("last_seen_at", at).Error
	return cmp.Or(err, changed(tx, uid))
}

func (repository) end(tx database.Tx, uid, id string, at time.Time) error {
	err := database.MustAffect(database.Scoped(tx.Handle, uid).Model(&sessionRow{}).
		Where("session_id = ? AND revoked_at IS NULL AND expires_at > ?", id, at).Update("revoked_at", at), ErrMissing)
	return cmp.Or(err, changed(tx, uid))
}

func (repository) endOthers(tx database.Tx, uid, but string, at time.Time) error {
	err := database.Scoped(tx.Handle, uid).Model(&sessionRow{}).Where("session_id <> ? AND revoked_at IS NULL", but).Update("revoked_at", at).Error
	return cmp.Or(err, changed(tx, uid))
}

// endOldest ends all but the newest sessions of a user.
func (repository) endOldest(tx database.Tx, uid string, keep int, at time.Time) (int64, error) {
	newest := database.Scoped(tx.Handle, uid).Model(&sessionRow{}).Select("pk").Where("revoked_at IS NULL AND expires_at > ?", at).Order("pk DESC").Limit(keep)
	q := database.Scoped(tx.Handle, uid).Model(&sessionRow{}).
		Where("revoked_at IS NULL AND expires_at > ? AND pk NOT IN (?)", at, newest).Update("revoked_at", at)
	return q.RowsAffected, q.Error
}

type codeRow struct {
	PK        int64 `gorm:"primaryKey"`
	CodeHash  string
	Kind      string
	UID       *string
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    *time.Time
}

func (codeRow) TableName() string { return "one_time_codes" }

func (repository) insertCode(tx database.Tx, row codeRow) error {
	return database.Unscoped(tx.Handle).Create(&row).Error
}

// good are the codes with a hash that may still be used: whom one is about follows
// from it.
func good(h database.Handle, kind Kind, hash string, now time.Time) *gorm.DB {
	return database.Unscoped(h).Model(&codeRow{}).Where("code_hash = ? AND kind = ? AND used_at IS NULL AND expires_at > ?", hash, string(kind), now)
}

func (repository) code(h database.Handle, kind Kind, hash string, now time.Time) (uid string, err error) {
	var row codeRow
	err = good(h, kind, hash, now).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return "", ErrBadCode
	}
	return database.Text(row.UID), err
}

func (r repository) redeem(tx database.Tx, kind Kind, hash string, now time.Time) (uid string, err error) {
	if uid, err = r.code(tx.Handle, kind, hash, now); err != nil {
		return "", err
	}
	return uid, database.MustAffect(good(tx.Handle, kind, hash, now).Update("used_at", now), ErrBadCode)
}

func (repository) purge(tx database.Tx, before time.Time) error {
	// A system job over all users.
	return cmp.Or(
		database.Unscoped(tx.Handle).Where("expires_at < ?", before).Delete(&sessionRow{}).Error,
		database.Unscoped(tx.Handle).Where("expires_at < ?", before).Delete(&codeRow{}).Error,
	)
}

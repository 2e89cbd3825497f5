package account

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/database"
)

func (repository) setRole(tx database.Tx, uid, role string) error {
	err := database.MustAffect(database.Scoped(tx.Handle, uid).Model(&userRow{}).Update("role", role), ErrUserMissing)
	return cmp.Or(err, changed(tx, uid))
}

// othersAdminister returns ErrLastAdmin where a user is the only administrator who
// is not disabled. Until the transaction ends, no other can stop being one.
func (repository) othersAdminister(tx database.Tx, uid string) error {
	var admins []string
	err := database.Lock(database.Unscoped(tx.Handle)).Model(&userRow{}).Where("role = ? AND disabled_at IS NULL", roleAdmin).Order("pk").Pluck("uid", &admins).Error
	if err == nil && len(admins) == 1 && admins[0] == uid {
		return ErrLastAdmin
	}
	return err
}

func (repository) search(h database.Handle, text string, w database.Window) ([]userRow, *int64, error) {
	q := database.Unscoped(h)
	if text != "" {
		like := "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(strings.ToLower(text)) + "%"
		q = q.Where(`lower(name) LIKE ? ESCAPE '\' OR lower(email) LIKE ? ESCAPE '\'`, like, like)
	}
	return database.Newest[userRow](q, w)
}

// byLogin prefers the address as it was typed: two may differ in their case.
func (repository) byLogin(h database.Handle, login string) (User, string, error) {
	var rows []userRow
	err := database.Unscoped(h).Where("lower(email) = lower(?) OR name = ?", login, login).Order("pk").Find(&rows).Error
	if err != nil {
		return User{}, "", err
	}
	if len(rows) == 0 {
		return User{}, "", ErrUserMissing
	}
	found := rows[max(0, slices.IndexFunc(rows, func(r userRow) bool { return database.Text(r.Email) == login }))]
	return found.user(), database.Text(found.Password), nil
}

func (repository) password(h database.Handle, uid string) (string, error) {
	var row userRow
	err := database.Scoped(h, uid).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return "", ErrUserMissing
	}
	return database.Text(row.Password), err
}

func (repository) setPassword(tx database.Tx, uid, hash string) error {
	return database.MustAffect(database.Scoped(tx.Handle, uid).Model(&userRow{}).Update("password", hash), ErrUserMissing)
}

// Package tenant makes transactions of one user wait for each other, and refuses to store
// anything for a user who is disabled.
package tenant

import (
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
)

// ErrDisabled says that nothing more is stored for a user.
var ErrDisabled = errs.New(errs.Unauthorized, "The user is disabled; nothing more is stored for them.").
	Do("Ask an administrator.")

// Lock keeps other transactions that lock the same user out until this one ends.
func Lock(tx database.Tx, uid string) error {
	_, err := lock(tx, uid)
	return err
}

// LockEnabled is Lock, and refuses with ErrDisabled what is to be stored for a user who
// is disabled. Work that began before may end while the user is erased.
func LockEnabled(tx database.Tx, uid string) error {
	disabled, err := lock(tx, uid)
	if err == nil && disabled != nil {
		err = ErrDisabled
	}
	return err
}

func lock(tx database.Tx, uid string) (disabled *time.Time, err error) {
	var found struct{ DisabledAt *time.Time }
	err = database.Lock(database.Scoped(tx.Handle, uid)).Table("users").Select("disabled_at").Take(&found).Error
	return found.DisabledAt, err
}

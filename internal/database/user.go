package database

import (
	"time"

	"github.com/portico-run/portico/internal/errs"
)

// ErrDisabled says that nothing more is stored for a user.
var ErrDisabled = errs.New(errs.Unauthorized, "The user is disabled; nothing more is stored for them.").
	Do("Ask an administrator.")

// LockUser makes transactions that lock the same user wait for each other.
func LockUser(tx Tx, uid string) error {
	_, err := lockUser(tx, uid)
	return err
}

// LockEnabled is LockUser, and refuses with ErrDisabled what is to be stored for a user
// who is disabled. Work that began before may end while the user is erased.
func LockEnabled(tx Tx, uid string) error {
	disabled, err := lockUser(tx, uid)
	if err == nil && disabled != nil {
		err = ErrDisabled
	}
	return err
}

func lockUser(tx Tx, uid string) (disabled *time.Time, err error) {
	var found struct{ DisabledAt *time.Time }
	err = Lock(Scoped(tx.Handle, uid)).Table("users").Select("disabled_at").Take(&found).Error
	return found.DisabledAt, err
}

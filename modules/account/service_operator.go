package account

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
)

// ErrLastUser is the refusal to delete the only user.
var ErrLastUser = errs.New(errs.Conflict, "The last user cannot be deleted: the next start would create a first user again.").
	Do("Create another user before, or disable this one.")

// Holding is something of a user's, counted.
type Holding struct {
	What  string
	Count int64
	// Stays is set where it keeps the user from being deleted.
	Stays bool
}

// KeysOf lists the keys of a user, or of all users without one, newest first.
// It is for operators.
func (s *Service) KeysOf(ctx context.Context, uid string) ([]Key, error) {
	return s.rows.keys(s.db.Read(ctx), uid)
}

// KeyByID finds a key of any user's that is not revoked, or returns
// ErrKeyMissing. It is for operators.
func (s *Service) KeyByID(ctx context.Context, keyID string) (Key, error) {
	keys, err := s.rows.keys(s.db.Read(ctx), "")
	if err != nil {
		return Key{}, err
	}
	i := slices.IndexFunc(keys, func(k Key) bool { return k.ID == keyID })
	if i < 0 {
		return Key{}, ErrKeyMissing.Do("List the keys with `portico key list`.")
	}
	return keys[i], nil
}

// Holdings counts what a user has. What has none of it is left out. It is for
// operators.
func (s *Service) Holdings(ctx context.Context, uid string) ([]Holding, error) {
	return s.holdings(s.db.Read(ctx), uid)
}

func (s *Service) holdings(h database.Handle, uid string) ([]Holding, error) {
	list := []Holding{}
	for _, b := range belongings() {
		stays, goes, err := s.rows.countOf(h, uid, b)
		if err != nil {
			return nil, fmt.Errorf("count %s: %w", b.what, err)
		}
		if stays > 0 {
			list = append(list, Holding{What: b.what, Count: stays, Stays: true})
		} else if goes > 0 && !b.stays {
			list = append(list, Holding{What: b.what, Count: goes})
		}
	}
	return list, nil
}

// Deletable returns a Conflict where a user is the last one, or where records
// of them stay. It is for operators.
func (s *Service) Deletable(ctx context.Context, u User) error {
	return s.deletable(s.db.Read(ctx), u)
}

func (s *Service) deletable(h database.Handle, u User) error {
	users, err := s.rows.users(h)
	if err != nil {
		return err
	}
	if len(users) == 1 && users[0].UID == u.UID {
		return ErrLastUser
	}
	if i := slices.IndexFunc(users, func(o User) bool { return o.Admin && !o.Disabled && o.UID != u.UID }); u.Admin && i < 0 {
		return ErrLastAdmin
	}
	held, err := s.holdings(h, u.UID)
	if err != nil {
		return err
	}
	var stay []string
	for _, h := range held {
		if h.Stays {
			stay = append(stay, fmt.Sprintf("%s: %d", h.What, h.Count))
		}
	}
	if len(stay) == 0 {
		return nil
	}
	return errs.Newf(errs.Conflict, "User %s cannot be deleted, because this is kept: %s.", u.Name, strings.Join(stay, ", ")).
		Do("Refuse every credential of the user instead: `portico user disable " + u.Name + "`.")
}

// DeleteUser deletes a user that is Deletable, with all that Holdings lists. It
// is for operators.
func (s *Service) DeleteUser(ctx context.Context, u User) error {
	err := s.db.InTx(ctx, func(tx database.Tx) error {
		// What is being added for the user is seen below, or fails.
		if err := s.rows.lock(tx, u.UID); err != nil {
			return err
		}
		if err := s.deletable(tx.Handle, u); err != nil {
			return err
		}
		for _, b := range belongings() {
			if err := s.rows.deleteOf(tx, u.UID, b); err != nil {
				return fmt.Errorf("delete %s: %w", b.what, err)
			}
		}
		if err := s.rows.deleteUser(tx, u.UID); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: actor.Actor{UID: audit.Operator}, Action: "user.delete", Subject: u.UID, Detail: map[string]string{"name": u.Name}}, s.now())
	})
	if err == nil {
		s.temporary.forget(u.UID)
	}
	return err
}

package account

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

// ErrLastAdmin is the refusal to take the only administrator away.
var ErrLastAdmin = errs.New(errs.Conflict, "This is the last administrator who is not disabled.").Do("Make another user an administrator before.")

// SetRole makes a user an administrator, or one no more. It is for administrators
// and operators: by is who does it.
func (s *Service) SetRole(ctx context.Context, by actor.Actor, uid string, admin bool) error {
	return s.db.InTx(ctx, func(tx database.Tx) error {
		role := User{Admin: admin}.Role()
		if !admin {
			if err := s.rows.othersAdminister(tx, uid); err != nil {
				return err
			}
		}
		if err := s.rows.setRole(tx, uid, role); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: by, Action: "user.role", Subject: uid, Detail: map[string]string{"role": role}}, s.now())
	})
}

// Disable refuses every credential of a user from now on, or takes them again. It
// is for operators.
func (s *Service) Disable(ctx context.Context, uid string, disabled bool) error {
	return s.DisableBy(ctx, actor.Actor{UID: uid}, uid, disabled)
}

// DisableBy is Disable for administrators: by is who does it.
func (s *Service) DisableBy(ctx context.Context, by actor.Actor, uid string, disabled bool) error {
	now, action := s.now(), "user.enable"
	at := &now
	if disabled {
		action = "user.disable"
	} else {
		at = nil
	}
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if disabled {
			if err := s.rows.othersAdminister(tx, uid); err != nil {
				return err
			}
		}
		if err := s.rows.disable(tx, uid, at); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: by, Action: action, Subject: uid}, now)
	})
}

// Search returns a page of all users with a text in their name or e-mail address,
// newest first; of all users for the empty text. It is for administrators.
func (s *Service) Search(ctx context.Context, text string, p httpapi.PageQuery) (httpapi.Page[User], error) {
	w, err := p.Window()
	if err != nil {
		return httpapi.Page[User]{}, err
	}
	rows, total, err := s.rows.search(s.db.Read(ctx), text, w)
	if err != nil {
		return httpapi.Page[User]{}, err
	}
	return httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r userRow) int64 { return r.PK }), userRow.user), nil
}

// NewUser is a user who is made. Password is a hash, or empty for none.
type NewUser struct{ Name, Email, Password string }

// Add makes a user, within a transaction, or returns ErrNameTaken. by is who does
// it; the zero value is the user.
func (s *Service) Add(tx database.Tx, by actor.Actor, n NewUser) (User, error) {
	if n.Email != "" {
		if !emailForm.MatchString(n.Email) || len(n.Email) > maxEmail {
			return User{}, ErrBadEmail
		}
		if _, _, err := s.rows.byLogin(tx.Handle, n.Email); err == nil {
			return User{}, ErrNameTaken
		}
	}
	u, err := s.insertUser(tx, n.Name, strings.TrimSpace(n.Email))
	if database.IsDuplicate(err) {
		return User{}, ErrNameTaken
	}
	if err == nil && n.Password != "" {
		err = s.rows.setPassword(tx, u.UID, n.Password)
	}
	if err != nil {
		return User{}, err
	}
	if by.UID == "" {
		by.UID = u.UID
	}
	return u, audit.Write(tx, audit.Change{By: by, Action: "user.create", Subject: u.UID, Detail: map[string]string{"name": u.Name}}, s.now())
}

// Person finds the user of a person at another server, or returns ErrUserMissing.
// Who asks has seen a proof of who the person is.
func (s *Service) Person(ctx context.Context, who Identity) (uid string, err error) {
	k, err := s.rows.identity(s.db.Read(ctx), who)
	if errors.Is(err, database.ErrNotFound) {
		return "", ErrUserMissing
	}
	return k.Row.UID, err
}

// Join makes a person at another server a user, within a transaction. A user who is
// somebody elsewhere already is refused with ErrJoined.
func (s *Service) Join(tx database.Tx, uid string, who Identity) error {
	now := s.now()
	err := s.rows.insertIdentity(tx, identityRow{
		Issuer: who.Issuer, Tenant: who.Tenant, Subject: who.Subject, UID: uid, PlanAt: time.Unix(0, 0).UTC(), LastSeenAt: now, CreatedAt: now,
	})
	if database.IsDuplicate(err) {
		return ErrJoined
	}
	if err != nil {
		return err
	}
	return audit.Write(tx, audit.Change{By: actor.Actor{UID: uid}, Action: "user.join", Subject: uid, Detail: map[string]string{"issuer": who.Issuer, "subject": who.Subject}}, now)
}

// FreeName is what a person's user may be called: as the person is called
// elsewhere, if that is a name that nobody has.
func (s *Service) FreeName(tx database.Tx, wanted string, who Identity) (string, error) {
	if nameForm.MatchString(wanted) {
		if _, _, err := s.rows.byLogin(tx.Handle, wanted); errors.Is(err, ErrUserMissing) {
			return wanted, nil
		} else if err != nil {
			return "", err
		}
	}
	return who.name(), nil
}

// ByLogin finds a user by an e-mail address or a name, with the hash of the
// password, which is empty for none; or it returns ErrUserMissing. Who asks has to
// know the password.
func (s *Service) ByLogin(ctx context.Context, login string) (u User, hash string, err error) {
	return s.rows.byLogin(s.db.Read(ctx), login)
}

// ByEmail finds the user with an e-mail address, within a transaction, or returns
// ErrUserMissing. Who asks has seen a proof of whose the address is.
func (s *Service) ByEmail(h database.Handle, email string) (User, error) {
	u, _, err := s.rows.byLogin(h, email)
	if err == nil && !strings.EqualFold(u.Email, email) {
		err = ErrUserMissing // somebody is called so
	}
	return u, err
}

// SetPassword stores the hash of a password, within a transaction. by is who does
// it.
func (s *Service) SetPassword(tx database.Tx, by actor.Actor, uid, hash string) error {
	if err := s.rows.setPassword(tx, uid, hash); err != nil {
		return err
	}
	return audit.Write(tx, audit.Change{By: by, Action: "user.password", Subject: uid}, s.now())
}

// PasswordOf returns the hash of the actor's password, empty for none.
func (s *Service) PasswordOf(ctx context.Context, a actor.Actor) (hash string, err error) {
	return s.rows.password(s.db.Read(ctx), a.UID)
}

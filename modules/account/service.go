package account

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/modules/account/login"
)

// Sessions says which sessions count.
type Sessions interface {
	// Live returns a session of a user's that counts, or login.ErrMissing.
	Live(ctx context.Context, uid, id string) (login.Session, error)
}

// Service keeps users and keys.
type Service struct {
	db        *database.DB
	sessions  Sessions
	tokenKeys signing.Keys
	tokenLife time.Duration
	hosts     Hosts
	apps      AppTokens // nil for none
	logger    *slog.Logger
	now       func() time.Time
	rows      repository
	temporary *temporaryKeys
	unknown   *unknownPlans
	facts     facts
}

// touchEvery keeps a busy key from writing its row on every request.
const touchEvery = time.Minute

// Authenticate says who presented the credentials.
func (s *Service) Authenticate(ctx context.Context, c httpapi.Credentials) (actor.Actor, error) {
	switch {
	case c.Ticket != "":
		return s.authenticateTicket(ctx, c.Ticket)
	case c.APIKey == "":
		return s.authenticateToken(ctx, c.Token)
	}
	hash := Plaintext(c.APIKey).hash()
	k, err := s.facts.keys.Get(ctx, hash, func(ctx context.Context) (Key, error) { return s.rows.byHash(s.db.Read(ctx), hash) })
	if err != nil {
		return actor.Actor{}, err
	}
	now := s.now()
	if !k.live(now) {
		return actor.Actor{}, ErrBadKey
	}
	if k.LastUsedAt == nil || now.Sub(*k.LastUsedAt) >= touchEvery {
		err := s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.touch(tx, k.UID, k.ID, now) })
		if err != nil { // knowing when it was used is worth no failed request
			s.logger.WarnContext(ctx, "the use of an API key was not noted", "keyId", k.ID, "error", err)
		}
	}
	return k.actor(), nil
}

// Still returns an Unauthorized error when the credential that an actor came with
// does not count any more. What it knows is at most a second old. The time after
// which a token, a ticket or a session has to be renewed is not looked at, but for
// a session's.
func (s *Service) Still(ctx context.Context, a actor.Actor) error {
	switch {
	case a.SessionID != "":
		if _, err := s.sessions.Live(ctx, a.UID, a.SessionID); errors.Is(err, login.ErrMissing) {
			return ErrBadToken
		} else if err != nil {
			return err
		}
	case a.KeyID != "":
		k, err := s.facts.ids.Get(ctx, a.KeyID, func(ctx context.Context) (Key, error) { return s.rows.byID(s.db.Read(ctx), a.UID, a.KeyID) })
		if err == nil && (k.UID != a.UID || !k.live(s.now())) {
			err = ErrBadKey
		}
		return err
	}
	_, err := s.enabled(ctx, a.UID)
	return err
}

// enabled returns a user who is not refused, or ErrBadToken.
func (s *Service) enabled(ctx context.Context, uid string) (User, error) {
	u, err := s.facts.users.Get(ctx, uid, func(ctx context.Context) (User, error) { return s.rows.user(s.db.Read(ctx), uid) })
	if errors.Is(err, ErrUserMissing) || err == nil && u.Disabled {
		return User{}, ErrBadToken.With(err)
	}
	return u, err
}

// CreateUser makes a user. It is for operators.
func (s *Service) CreateUser(ctx context.Context, name, email string) (User, error) {
	var u User
	err := s.db.InTx(ctx, func(tx database.Tx) (err error) {
		u, err = s.insertUser(tx, name, email)
		return err
	})
	if database.IsDuplicate(err) {
		return User{}, ErrNameTaken
	}
	return u, err
}

func (s *Service) insertUser(tx database.Tx, name, email string) (User, error) {
	if !nameForm.MatchString(name) {
		return User{}, ErrBadUser
	}
	now := s.now()
	row := userRow{UID: ids.New(ids.User), Name: name, Role: roleUser, HasBetaAccess: true, CreatedAt: now, UpdatedAt: now}
	if email != "" {
		row.Email = &email
	}
	return row.user(), s.rows.insertUser(tx, row)
}

// Users lists every user. It is for operators.
func (s *Service) Users(ctx context.Context) ([]User, error) {
	users, err := s.rows.users(s.db.Read(ctx))
	if err != nil {
		return nil, err
	}
	from, err := s.rows.identities(s.db.Read(ctx))
	for i, u := range users {
		if who, ok := from[u.UID]; ok {
			users[i].From = &who
		}
	}
	return users, err
}

// User returns the actor's own user, or ErrUserMissing.
func (s *Service) User(ctx context.Context, a actor.Actor) (User, error) {
	return s.UserIn(s.db.Read(ctx), a.UID)
}

// UserIn is User within a transaction.
func (s *Service) UserIn(h database.Handle, uid string) (User, error) { return s.rows.user(h, uid) }

// UserByName finds a user. It is for operators.
func (s *Service) UserByName(ctx context.Context, name string) (User, error) {
	return s.rows.userByName(s.db.Read(ctx), name)
}

// firstKey is the name of the key of the first user.
const firstKey = "first key"

// Bootstrap makes the first user and its key when there is no user at all.
// Any number of processes may call it at once: one of them creates.
func (s *Service) Bootstrap(ctx context.Context, name string) (u User, key Plaintext, created bool, err error) {
	users, err := s.Users(ctx)
	if err != nil || len(users) > 0 {
		return User{}, "", false, err
	}
	err = s.db.InTx(ctx, func(tx database.Tx) (err error) {
		if u, err = s.insertUser(tx, name, ""); err != nil {
			return err
		}
		if err = s.rows.setRole(tx, u.UID, roleAdmin); err != nil {
			return err
		}
		u.Admin = true
		k, plain, err := s.insertKey(tx, u.UID, firstKey, actor.Full, nil)
		if err != nil {
			return err
		}
		key = plain
		return audit.Write(tx, audit.Change{By: actor.Actor{UID: u.UID}, Action: "key.create", Subject: k.ID, Detail: map[string]string{"name": firstKey}}, s.now())
	})
	if database.IsDuplicate(err) {
		return User{}, "", false, nil // another process was faster
	}
	return u, key, err == nil, err
}

// CreateKey makes an API key for the actor; days is how long it lives, zero
// for ever, and scopes are what it may do, none everything. The plain text is not
// kept: this is the only time it is there.
func (s *Service) CreateKey(ctx context.Context, a actor.Actor, name string, days int, scopes ...string) (Key, Plaintext, error) {
	name, err := keyName(name)
	if err != nil {
		return Key{}, "", err
	}
	rights, unknown := actor.ParseRights(scopes)
	if unknown != "" {
		return Key{}, "", ErrBadScope
	}
	if days < 0 || days > maxKeyDays {
		return Key{}, "", ErrBadKeyDays
	}
	var expires *time.Time
	if days > 0 {
		t := s.now().AddDate(0, 0, days)
		expires = &t
	}
	var (
		k     Key
		plain Plaintext
	)
	err = s.db.InTx(ctx, func(tx database.Tx) (err error) {
		if k, plain, err = s.writeKey(tx, keyRow{UID: a.UID, Name: name, Scopes: rights.String(), ExpiresAt: expires}); err != nil {
			return err
		}
		detail := map[string]string{"name": name}
		if rights != 0 {
			detail["scopes"] = rights.String()
		}
		return audit.Write(tx, audit.Change{By: a, Action: "key.create", Subject: k.ID, Detail: detail}, s.now())
	})
	return k, plain, err
}

func keyName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" || utf8.RuneCountInString(name) > maxKeyName || strings.ContainsRune(name, 0) {
		return "", ErrBadKeyName
	}
	return name, nil
}

func (s *Service) insertKey(tx database.Tx, uid, name string, scope actor.Scope, expires *time.Time) (Key, Plaintext, error) {
	row := keyRow{UID: uid, Name: name, ExpiresAt: expires}
	if scope != actor.Full {
		text := string(scope)
		row.Scope = &text
	}
	return s.writeKey(tx, row)
}

// writeKey fills in what every key has of its own.
func (s *Service) writeKey(tx database.Tx, row keyRow) (Key, Plaintext, error) {
	plain := newPlaintext()
	row.KeyID, row.KeyHash, row.KeyPrefix, row.CreatedAt = ids.New(ids.Key), plain.hash(), plain.shown(), s.now()
	k, err := row.key()
	if err != nil {
		return Key{}, "", err
	}
	return k, plain, s.rows.insertKey(tx, row)
}

// Keys lists the actor's own keys, the newest first.
func (s *Service) Keys(ctx context.Context, a actor.Actor) ([]Key, error) {
	return s.rows.ownKeys(s.db.Read(ctx), a.UID)
}

// RenameKey gives a key of the actor's another name.
func (s *Service) RenameKey(ctx context.Context, a actor.Actor, keyID, name string) error {
	name, err := keyName(name)
	if err != nil {
		return err
	}
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.rename(tx, a.UID, keyID, name); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: a, Action: "key.rename", Subject: keyID, Detail: map[string]string{"name": name}}, s.now())
	})
}

// ChooseModel says which model agents have that are asked with a key of the actor's and
// name none; an empty name leaves it to the server. Whether there is such a model, the
// caller knows.
func (s *Service) ChooseModel(ctx context.Context, a actor.Actor, keyID, model string) error {
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.chooseModel(tx, a.UID, keyID, model); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: a, Action: "key.model", Subject: keyID, Detail: map[string]string{"model": model}}, s.now())
	})
}

// RevokeKey ends a key of the actor's at once, a sandbox's included.
func (s *Service) RevokeKey(ctx context.Context, a actor.Actor, keyID string) error {
	err := s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.revoke(tx, a.UID, keyID, s.now()); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: a, Action: "key.revoke", Subject: keyID}, s.now())
	})
	if err == nil {
		s.temporary.forget(a.UID)
	}
	return err
}

// Audit returns a page of the changes to the actor's keys, credentials and
// connections, newest first.
func (s *Service) Audit(ctx context.Context, a actor.Actor, p httpapi.PageQuery) (httpapi.Page[audit.Event], error) {
	w, err := p.Window()
	if err != nil {
		return httpapi.Page[audit.Event]{}, err
	}
	events, total, err := audit.List(s.db.Read(ctx), a.UID, w)
	if err != nil {
		return httpapi.Page[audit.Event]{}, err
	}
	return httpapi.PageOf(w, events, total, func(e audit.Event) int64 { return e.PK }), nil
}

// KeyOwner returns the user a key opens the door for, or ErrBadKey.
func (s *Service) KeyOwner(ctx context.Context, key string) (string, error) {
	k, err := s.rows.byHash(s.db.Read(ctx), Plaintext(key).hash())
	if err == nil && !k.live(s.now()) {
		err = ErrBadKey
	}
	return k.UID, err
}

package signin

import (
	"context"
	"errors"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/login"
	"github.com/portico-run/portico/modules/account/password"
)

// SignUp says who may make a user of their own.
type SignUp string

// Off is nobody, Invite whoever has an invitation, Open everybody.
const (
	Off    SignUp = "off"
	Invite SignUp = "invite"
	Open   SignUp = "open"
)

func (s SignUp) possible() bool { return s == Open || s == Invite }

// Errors of passwords and of signing up.
var (
	ErrWrongPassword = errs.New(errs.Forbidden, "The old password is not right.").Do("Send the password that you sign in with now.")
	ErrNoSignUp      = errs.New(errs.Forbidden, "Nobody can sign up at this server.").Do("Ask its operator for a user, or for SIGNUP=invite.")
	ErrBadInvite     = errs.New(errs.Forbidden, "Signing up needs an invitation that is still good.").Do("Ask an administrator of this server for one.")
)

// byPassword returns the user whose name or e-mail address and password these are,
// or ErrRefused. Whatever is wrong, it takes as long.
func (s *Service) byPassword(ctx context.Context, p Proof) (uid string, err error) {
	u, hash, err := s.accounts.ByLogin(ctx, p.Email)
	if err != nil && !errors.Is(err, account.ErrUserMissing) {
		return "", err
	}
	right, err := s.hasher.Matches(ctx, hash, p.Password)
	if err != nil {
		return "", err
	}
	if !right {
		return "", ErrRefused
	}
	return u.UID, nil
}

// ChangePassword gives the actor another password, and ends their other sessions.
// It needs the old one, if there is one. Of those who failed too often, it returns a
// RateLimited error.
func (s *Service) ChangePassword(ctx context.Context, a actor.Actor, old, next string, c Client) error {
	succeeded, err := s.attempts.begin(c.IP, a.UID)
	if err != nil {
		return err
	}
	had, err := s.accounts.PasswordOf(ctx, a)
	if err != nil {
		return err
	}
	if had != "" {
		right, err := s.hasher.Matches(ctx, had, old)
		if err != nil {
			return err
		}
		if !right {
			return ErrWrongPassword
		}
	}
	succeeded()
	return s.setPassword(ctx, a, a.UID, next)
}

// SetPassword gives a user a password, and ends their sessions. It is for operators
// and administrators: by is who does it.
func (s *Service) SetPassword(ctx context.Context, by actor.Actor, uid, next string) error {
	return s.setPassword(ctx, by, uid, next)
}

func (s *Service) setPassword(ctx context.Context, by actor.Actor, uid, next string) error {
	hash, err := s.hasher.Hash(ctx, next)
	if err != nil {
		return err
	}
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.accounts.SetPassword(tx, by, uid, hash); err != nil {
			return err
		}
		keep := ""
		if by.UID == uid {
			keep = by.SessionID
		}
		return s.sessions.EndOthers(tx, uid, keep)
	})
}

// Newcomer is somebody who signs up. Invite is the code of an invitation.
type Newcomer struct{ Name, Email, Password, Invite string }

// SignUp makes a user and signs them in. Names that are taken are said to be: that
// cannot be helped. Attempts that fail count as those of signing in.
func (s *Service) SignUp(ctx context.Context, n Newcomer, c Client) (in SignedIn, err error) {
	if err := password.Check(n.Password); err != nil {
		return SignedIn{}, err
	}
	if !s.settings.SignUp.possible() {
		return SignedIn{}, ErrNoSignUp
	}
	succeeded, err := s.attempts.begin(c.IP, "")
	if err != nil {
		return SignedIn{}, err
	}
	if s.settings.SignUp == Invite { // before a hash is made of what may be anybody's
		if _, err := s.sessions.Valid(ctx, login.Invite, n.Invite); err != nil {
			return SignedIn{}, badInvite(err)
		}
	}
	hash, err := s.hasher.Hash(ctx, n.Password)
	if err != nil {
		return SignedIn{}, err
	}
	in, err = s.enter(ctx, func(tx database.Tx) (login.Session, error) {
		u, err := s.admit(tx, account.NewUser{Name: n.Name, Email: n.Email, Password: hash}, n.Invite)
		if err != nil {
			return login.Session{}, err
		}
		return s.sessions.Begin(tx, login.Session{UID: u.UID, Method: login.BySignUp, UserAgent: c.UserAgent, IP: c.IP}, s.accounts.TokenLife())
	})
	if err == nil {
		succeeded()
	}
	return in, err
}

// admit makes a user who signs up, as the rule of signing up has it.
func (s *Service) admit(tx database.Tx, n account.NewUser, invite string) (account.User, error) {
	switch s.settings.SignUp {
	case Open:
	case Invite:
		if _, err := s.sessions.Redeem(tx, login.Invite, invite); err != nil {
			return account.User{}, badInvite(err)
		}
	default:
		return account.User{}, ErrNoSignUp
	}
	return s.accounts.Add(tx, actor.Actor{}, n)
}

func badInvite(err error) error {
	if errors.Is(err, login.ErrBadCode) {
		return ErrBadInvite.With(err)
	}
	return err
}

// Invitation is what one person signs up with.
type Invitation struct {
	Code      string
	Link      string // with the code, to the console; empty where there is none
	ExpiresAt time.Time
}

// Invite invites one person, within login.InviteLife. It is for administrators and
// operators: by is who does it.
func (s *Service) Invite(ctx context.Context, by actor.Actor) (Invitation, error) {
	if !s.settings.SignUp.possible() {
		return Invitation{}, errs.New(errs.Conflict, "Nobody can sign up at this server.").Do("Set SIGNUP=invite and start the server again.")
	}
	from := by.UID
	if from == audit.Operator {
		from = ""
	}
	var code login.Code
	err := s.db.InTx(ctx, func(tx database.Tx) (err error) {
		if code, err = s.sessions.Issue(tx, login.Invite, from, login.InviteLife); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: by, Action: "user.invite", Subject: by.UID}, s.now())
	})
	made := Invitation{Code: code.Text, ExpiresAt: code.ExpiresAt}
	if s.settings.Console != "" {
		made.Link = s.settings.Endpoint + s.settings.Console + "/signup?invite=" + code.Text
	}
	return made, err
}

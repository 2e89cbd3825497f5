package signin

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/login"
	"github.com/portico-run/portico/modules/account/oidc"
)

// ErrRefused is the answer to everybody who is not let in, whatever is wrong: it
// says nothing about who there is.
var ErrRefused = errs.New(errs.Unauthorized, "Signing in did not work.").
	Do("Check what you sent. A link is good once, for five minutes; `portico console` prints another one.")

// ErrProof is the answer to a request that does not say who wants in.
var ErrProof = errs.New(errs.Invalid, "One of apiKey, code, and email with password is needed.").Do("Send exactly one of them.")

// hasher makes and checks hashes of passwords.
type hasher interface {
	Hash(ctx context.Context, password string) (string, error)
	Matches(ctx context.Context, hash, password string) (bool, error)
}

// Service signs people in and out.
type Service struct {
	db       *database.DB
	accounts *account.Service
	sessions *login.Service
	settings Settings
	attempts *attempts
	hasher   hasher
	provider *oidc.Provider // nil for none
	logger   *slog.Logger
	now      func() time.Time
}

const (
	maxName     = 320  // bytes of a name or an e-mail address
	maxPassword = 1024 // bytes
)

// Proof is by what somebody signs in: one of an API key, a code, and a name or an
// e-mail address with a password.
type Proof struct{ APIKey, Code, Email, Password string }

// Client is what the server sees of a browser.
type Client struct{ IP, UserAgent string }

// SignedIn is a session that has begun.
type SignedIn struct {
	User    account.User
	Session login.Session
	Token   string // of the session
}

// SignIn begins a session, or returns ErrRefused. Of those who failed too often, it
// returns a RateLimited error to all.
func (s *Service) SignIn(ctx context.Context, p Proof, c Client) (SignedIn, error) {
	if strings.ContainsRune(p.APIKey+p.Code+p.Email+p.Password, 0) { // which no database takes
		return SignedIn{}, ErrProof
	}
	if len(p.Email) > maxName || len(p.Password) > maxPassword {
		return SignedIn{}, ErrRefused
	}
	proofs := 0
	for _, one := range []string{p.APIKey, p.Code, p.Email} {
		if one != "" {
			proofs++
		}
	}
	if proofs != 1 || (p.Email == "") != (p.Password == "") {
		return SignedIn{}, ErrProof
	}
	succeeded, err := s.attempts.begin(c.IP, p.Email)
	if err != nil {
		return SignedIn{}, err
	}
	in, err := s.signIn(ctx, p, c)
	if err == nil {
		succeeded()
	}
	return in, err
}

func (s *Service) signIn(ctx context.Context, p Proof, c Client) (SignedIn, error) {
	begin := func(tx database.Tx, uid, method string) (login.Session, error) {
		return s.sessions.Begin(tx, login.Session{UID: uid, Method: method, UserAgent: c.UserAgent, IP: c.IP}, s.accounts.TokenLife())
	}
	switch {
	case p.APIKey != "":
		who, err := s.accounts.Authenticate(ctx, httpapi.Credentials{APIKey: p.APIKey})
		if errors.Is(err, account.ErrBadKey) || err == nil && who.Scope != actor.Full {
			return SignedIn{}, ErrRefused.With(err)
		}
		if err != nil {
			return SignedIn{}, err
		}
		return s.enter(ctx, func(tx database.Tx) (login.Session, error) {
			n := login.Session{UID: who.UID, Method: login.ByKey, KeyID: who.KeyID, Rights: who.Rights, UserAgent: c.UserAgent, IP: c.IP}
			return s.sessions.Begin(tx, n, s.accounts.TokenLife())
		})
	case p.Code != "":
		return s.enter(ctx, func(tx database.Tx) (login.Session, error) {
			uid, err := s.sessions.Redeem(tx, login.Link, p.Code)
			if err != nil {
				return login.Session{}, err
			}
			return begin(tx, uid, login.ByLink)
		})
	}
	uid, err := s.byPassword(ctx, p)
	if err != nil {
		return SignedIn{}, err
	}
	return s.enter(ctx, func(tx database.Tx) (login.Session, error) { return begin(tx, uid, login.ByPassword) })
}

// enter begins a session for a user who is not disabled.
func (s *Service) enter(ctx context.Context, begin func(tx database.Tx) (login.Session, error)) (in SignedIn, err error) {
	err = s.db.InTx(ctx, func(tx database.Tx) (err error) {
		if in.Session, err = begin(tx); err != nil {
			return err
		}
		in.User, err = s.accounts.UserIn(tx.Handle, in.Session.UID)
		if err == nil && in.User.Disabled {
			err = ErrRefused
		}
		return err
	})
	if errors.Is(err, login.ErrBadCode) || errors.Is(err, account.ErrUserMissing) {
		return SignedIn{}, ErrRefused.With(err)
	}
	if err != nil {
		return SignedIn{}, err
	}
	in.Token, err = s.accounts.SessionToken(in.User, in.Session)
	return in, err
}

// SignOut ends the session that a token names. A token that counts no more is none.
func (s *Service) SignOut(ctx context.Context, token string) error {
	who, err := s.accounts.Authenticate(ctx, httpapi.Credentials{Token: token})
	if errors.Is(err, account.ErrBadToken) || err == nil && who.SessionID == "" {
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.sessions.End(ctx, who, who.SessionID); !errors.Is(err, login.ErrMissing) {
		return err
	}
	return nil
}

var errNoConsole = errs.New(errs.Conflict, "This server has no console.").Do("Set CONSOLE_ENABLED=true and start the server again.")

// Link makes a link that signs a user in once at the console, within login.LinkLife.
// It is for operators.
func (s *Service) Link(ctx context.Context, u account.User) (link string, expires time.Time, err error) {
	return s.LinkAt(ctx, s.settings.Endpoint, u)
}

// LinkAt is Link for a server that is reached at another address than its settings
// say.
func (s *Service) LinkAt(ctx context.Context, endpoint string, u account.User) (link string, expires time.Time, err error) {
	if s.settings.Console == "" {
		return "", time.Time{}, errNoConsole
	}
	var code login.Code
	err = s.db.InTx(ctx, func(tx database.Tx) (err error) {
		if code, err = s.sessions.Issue(tx, login.Link, u.UID, login.LinkLife); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: actor.Actor{UID: audit.Operator}, Action: "user.link", Subject: u.UID}, s.now())
	})
	return endpoint + s.settings.Console + "/login?code=" + code.Text, code.ExpiresAt, err
}

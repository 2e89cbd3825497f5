package authserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/account"
)

// Lives of what apps are given.
const (
	codeLife    = time.Minute
	accessLife  = time.Hour
	refreshLife = 60 * 24 * time.Hour // since the last token
	maxApps     = 100                 // that one user lets in
	maxSecret   = 128                 // bytes of what an app sends back
)

var (
	// ErrNoApp is the answer for an app that the caller has not let in.
	ErrNoApp   = errs.New(errs.NotFound, "There is no such app.").Do("GET /v1/auth/apps lists them.")
	errMany    = errs.Newf(errs.Conflict, "You have let %d apps in, as many as there may be.", maxApps).Do("End some of them first: DELETE /v1/auth/apps/ID, or the account page of the console.")
	errRequest = errs.New(errs.Invalid, "The app's request cannot be answered.")
	// errElsewhere is for people; apps are told errTarget.
	errElsewhere = errs.New(errs.Forbidden, "The app asks for another server.").Do("Give it the address of this one: the documentation says which.")
)

// Service lets apps in.
type Service struct {
	deps      Deps
	documents *documents
	rows      repository
}

// Request is what an app asks for. Scope names scopes, between spaces.
type Request struct{ ResponseType, ClientID, RedirectURI, State, Scope, Resource, Challenge, Method string }

// Asked is what people are told of a request: the name that the app gives itself, the
// host whose document describes it (empty for one that registered itself), where the
// browser goes back to, and what the app may.
type Asked struct{ Name, App, Place, Scope string }

var challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// Read looks at a request, and says who it is from. Nothing that is wrong with it leads
// back to the app: who has registered may be anybody.
func (s *Service) Read(ctx context.Context, r Request) (Asked, error) {
	c, err := s.client(ctx, r.ClientID)
	switch {
	case err != nil:
		return Asked{}, err
	case !c.knows(r.RedirectURI):
		return Asked{}, errNoRedirect
	case r.ResponseType != "code":
		return Asked{}, errRequest.Do("Its response_type is not code.")
	case r.Method != "S256" || !challengeForm.MatchString(r.Challenge):
		return Asked{}, errRequest.Do("It has no code_challenge of the method S256.")
	case !s.ours(r.Resource):
		return Asked{}, errElsewhere
	}
	a := Asked{Name: plain(c.Name), Place: placeOf(r.RedirectURI)}
	if a.Scope, err = scopeOf(r.Scope, string(actor.MCP)); err != nil {
		return Asked{}, err
	}
	if u, err := url.Parse(r.ClientID); err == nil && u.Scheme == "https" {
		a.App = u.Host
	}
	a.Name = cmp.Or(a.Name, a.App, a.Place)
	return a, nil
}

// plain is a name without what would change how other text looks, such as marks that
// turn its direction.
func plain(name string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, name))
}

// ours reports whether an app asks for this server, as one that names no resource does.
func (s *Service) ours(resource string) bool {
	c := s.deps.Settings
	return resource == "" || strings.TrimSuffix(resource, "/") == c.Endpoint+c.Resource
}

// Decide lets an app in as the actor, or refuses it, and returns where the browser goes.
func (s *Service) Decide(ctx context.Context, a actor.Actor, r Request, allow bool) (string, error) {
	asked, err := s.Read(ctx, r)
	if err != nil {
		return "", err
	}
	if !allow {
		return s.back(r, "error", "access_denied"), nil
	}
	now, code := s.deps.Now(), rand.Text()
	row := grantRow{
		GrantID: ids.New("app"), UID: a.UID, Name: asked.Name, Place: asked.Place, Client: hashOf(r.ClientID), Code: hashOf(code), CodeUntil: now.Add(codeLife),
		Redirect: r.RedirectURI, Challenge: r.Challenge, Scope: asked.Scope, CreatedAt: now, ExpiresAt: now.Add(refreshLife),
	}
	err = s.deps.DB.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.stale(tx, a.UID, now); err != nil {
			return err
		}
		n, err := s.rows.count(tx, a.UID)
		if err == nil && n >= maxApps {
			err = errMany
		}
		if err != nil {
			return err
		}
		if err := s.rows.insert(tx, row); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: a, Action: "app.allow", Subject: row.GrantID, Detail: map[string]string{"name": row.Name, "place": row.Place, "scope": row.Scope}}, now)
	})
	return s.back(r, "code", code), err
}

// back is where the browser goes, with an answer.
func (s *Service) back(r Request, name, value string) string {
	u, err := url.Parse(r.RedirectURI)
	if err != nil {
		return "" // Read has parsed it
	}
	q := u.Query()
	q.Set(name, value)
	q.Set("iss", s.deps.Settings.Endpoint+issuerPath)
	if r.State != "" {
		q.Set("state", r.State)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Redemption is a code that an app redeems.
type Redemption struct{ Code, ClientID, Redirect, Verifier, Resource string }

// Tokens are what an app gets; Scope is what the access token may.
type Tokens struct{ Access, Refresh, Scope string }

// Redeem gives an app its first tokens. A code that comes again ends what the app was
// allowed: somebody else may have it.
func (s *Service) Redeem(ctx context.Context, r Redemption) (Tokens, error) {
	if r.Code == "" || r.ClientID == "" || r.Redirect == "" || r.Verifier == "" {
		return Tokens{}, protocol("invalid_request", "code, client_id, redirect_uri and code_verifier are needed.")
	}
	if len(r.Code) > maxSecret {
		return Tokens{}, errGrant
	}
	return s.give(ctx, func(tx database.Tx) (row grantRow, again bool, err error) {
		row, err = s.rows.by(tx, "code", hashOf(r.Code))
		if err != nil || row.Refresh != nil {
			return row, err == nil, err
		}
		sum := sha256.Sum256([]byte(r.Verifier))
		proof := base64.RawURLEncoding.EncodeToString(sum[:])
		switch {
		case row.CodeUntil.Before(s.deps.Now()), row.Client != hashOf(r.ClientID), row.Redirect != r.Redirect,
			subtle.ConstantTimeCompare([]byte(proof), []byte(row.Challenge)) != 1:
			return row, false, errGrant
		case !s.ours(r.Resource):
			return row, false, errTarget
		}
		return row, false, nil
	})
}

// Renewal is a refresh token that an app redeems. Scope is what the access token may,
// where that is less than the app was allowed.
type Renewal struct{ Token, ClientID, Resource, Scope string }

// Refresh gives an app other tokens. A refresh token that comes again ends what the app
// was allowed. What the app was allowed stays as it is, also where it asks for less.
func (s *Service) Refresh(ctx context.Context, r Renewal) (Tokens, error) {
	if r.Token == "" || r.ClientID == "" {
		return Tokens{}, protocol("invalid_request", "refresh_token and client_id are needed.")
	}
	if len(r.Token) > maxSecret {
		return Tokens{}, errGrant
	}
	return s.give(ctx, func(tx database.Tx) (row grantRow, again bool, err error) {
		row, err = s.rows.by(tx, "refresh", hashOf(r.Token))
		if errors.Is(err, errGrant) {
			row, err = s.rows.by(tx, "spent", hashOf(r.Token))
			return row, err == nil, err
		}
		switch {
		case err != nil:
		case row.ExpiresAt.Before(s.deps.Now()), row.Client != hashOf(r.ClientID):
			err = errGrant
		case !s.ours(r.Resource):
			err = errTarget
		default:
			row.Scope, err = narrowed(row.Scope, r.Scope)
		}
		return row, false, err
	})
}

// give writes the tokens of a grant that find returns; again says that its secret was
// used before.
func (s *Service) give(ctx context.Context, find func(tx database.Tx) (row grantRow, again bool, err error)) (t Tokens, err error) {
	var stolen bool
	err = s.deps.DB.InTx(ctx, func(tx database.Tx) error {
		row, again, err := find(tx)
		if err != nil {
			return err
		}
		if stolen = again; again {
			s.deps.Logger.WarnContext(ctx, "a secret of an app came twice: the app is let in no more", "app", row.GrantID, "user", row.UID)
			return s.end(tx, actor.Actor{UID: row.UID}, row.GrantID)
		}
		switch u, err := s.deps.Accounts.UserIn(tx.Handle, row.UID); {
		case errors.Is(err, account.ErrUserMissing) || err == nil && u.Disabled:
			return errGrant
		case err != nil:
			return err
		}
		now := s.deps.Now()
		t.Refresh = rand.Text() + rand.Text()
		if err := s.rows.renew(tx, row, hashOf(t.Refresh), now, now.Add(refreshLife)); err != nil {
			return err
		}
		access, err := s.deps.Accounts.AppKey(tx, account.AppKey{UID: row.UID, GrantID: row.GrantID, Scope: actor.Scope(row.Scope), Until: now.Add(accessLife)})
		t.Access, t.Scope = access.Reveal(), row.Scope
		return err
	})
	if err == nil && stolen {
		err = errGrant
	}
	if err != nil {
		return Tokens{}, err
	}
	return t, nil
}

// Revoke ends what the app was allowed that a refresh token belongs to. One that there
// is not is no error.
func (s *Service) Revoke(ctx context.Context, token string) error {
	if len(token) > maxSecret {
		return nil
	}
	err := s.deps.DB.InTx(ctx, func(tx database.Tx) error {
		row, err := s.rows.by(tx, "refresh", hashOf(token))
		if err != nil {
			return err
		}
		return s.end(tx, actor.Actor{UID: row.UID}, row.GrantID)
	})
	if errors.Is(err, errGrant) {
		return nil
	}
	return err
}

// App is an app that a user let in.
type App struct {
	AppID, Name, Place string
	Scope              string // what it may
	CreatedAt          time.Time
	UsedAt             *time.Time
	ExpiresAt          time.Time
}

// Apps lists the apps that the actor let in, the newest first.
func (s *Service) Apps(ctx context.Context, a actor.Actor) ([]App, error) {
	rows, err := s.rows.list(s.deps.DB.Read(ctx), a.UID, s.deps.Now())
	apps := make([]App, len(rows))
	for i, r := range rows {
		apps[i] = App{AppID: r.GrantID, Name: r.Name, Place: r.Place, Scope: r.Scope, CreatedAt: r.CreatedAt.UTC(), UsedAt: r.UsedAt, ExpiresAt: r.ExpiresAt.UTC()}
	}
	return apps, err
}

// End lets an app of the actor's in no more: its tokens stop to count at once.
func (s *Service) End(ctx context.Context, a actor.Actor, id string) error {
	return s.deps.DB.InTx(ctx, func(tx database.Tx) error { return s.end(tx, a, id) })
}

func (s *Service) end(tx database.Tx, a actor.Actor, id string) error {
	if err := s.rows.delete(tx, a.UID, id); err != nil {
		return err
	}
	if err := s.deps.Accounts.EndAppKeys(tx, a.UID, id); err != nil {
		return err
	}
	return audit.Write(tx, audit.Change{By: a, Action: "app.end", Subject: id}, s.deps.Now())
}

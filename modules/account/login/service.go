package login

import (
	"context"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/wake"
)

// ErrMissing is the answer for a session that there is not, that has ended, or
// that is another user's.
var ErrMissing = errs.New(errs.NotFound, "There is no such session, or it has ended.").Do("List your sessions with GET /v1/auth/sessions.")

// Ways to sign in.
const (
	ByKey      = "key"
	ByLink     = "link"
	ByPassword = "password"
	ByOIDC     = "oidc"
	BySignUp   = "sign-up"
)

const (
	// MaxLive is how many sessions a user may have. The oldest ends where there
	// would be more.
	MaxLive = 50
	// maxAgent is how much of a browser's name is kept, in bytes.
	maxAgent = 256
	// touchEvery keeps a busy session from writing its row on every request.
	touchEvery = time.Minute
	// purgeAfter is how long what is over is kept.
	purgeAfter = 7 * 24 * time.Hour
)

// Session is a person who is signed in.
type Session struct {
	ID, UID string
	Method  string // ByKey, …
	// KeyID is the API key that it was begun with: the session ends with the key
	// and may do what the key may. Empty for none.
	KeyID  string
	Rights actor.Rights
	// UserAgent and IP are what the browser called itself, and where its
	// connection came from: of a proxy, if there is one in front.
	UserAgent, IP                    string
	CreatedAt, LastSeenAt, ExpiresAt time.Time
}

// Service keeps sessions.
type Service struct {
	db     *database.DB
	logger *slog.Logger
	now    func() time.Time
	live   *cached.Cache[string, Session]
	rows   repository
}

// Begin writes a session that lives for a while, within a transaction. ID and times
// are set here.
func (s *Service) Begin(tx database.Tx, n Session, life time.Duration) (Session, error) {
	n.ID, n.CreatedAt = ids.New(ids.Session), s.now()
	n.LastSeenAt, n.ExpiresAt = n.CreatedAt, n.CreatedAt.Add(life)
	n.UserAgent = shorten(n.UserAgent)
	if err := s.rows.insert(tx, n); err != nil {
		return Session{}, err
	}
	ended, err := s.rows.endOldest(tx, n.UID, MaxLive, n.CreatedAt)
	if err == nil && ended > 0 {
		err = changed(tx, n.UID)
	}
	if err != nil {
		return Session{}, err
	}
	by := actor.Actor{UID: n.UID, KeyID: n.KeyID}
	return n, audit.Write(tx, audit.Change{By: by, Action: "session.begin", Subject: n.ID, Detail: map[string]string{"method": n.Method}}, n.CreatedAt)
}

// shorten makes text that a browser chose fit for the database.
func shorten(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
	for len(text) > maxAgent {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// Live returns a session of a user's that counts, or ErrMissing. It is known for
// at most a second.
func (s *Service) Live(ctx context.Context, uid, id string) (Session, error) {
	known, err := s.live.Get(ctx, id, func(ctx context.Context) (Session, error) { return s.rows.live(s.db.Read(ctx), id, s.now()) })
	now := s.now()
	if err == nil && (known.UID != uid || !known.ExpiresAt.After(now)) {
		err = ErrMissing
	}
	if err != nil {
		return Session{}, err
	}
	if now.Sub(known.LastSeenAt) >= touchEvery {
		err := s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.touch(tx, uid, id, now) })
		if err != nil { // knowing when somebody was seen is worth no failed request
			s.logger.WarnContext(ctx, "the use of a session was not noted", "session", id, "error", err)
		}
	}
	return known, nil
}

// List returns the actor's sessions that count, the newest first.
func (s *Service) List(ctx context.Context, a actor.Actor) ([]Session, error) {
	return s.rows.list(s.db.Read(ctx), a.UID, s.now())
}

// End ends a session of the actor's, or returns ErrMissing.
func (s *Service) End(ctx context.Context, a actor.Actor, id string) error {
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.end(tx, a.UID, id, s.now()); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: a, Action: "session.end", Subject: id}, s.now())
	})
}

// EndOthers ends all of a user's sessions but one, within a transaction; all for
// the empty id.
func (s *Service) EndOthers(tx database.Tx, uid, but string) error {
	return s.rows.endOthers(tx, uid, but, s.now())
}

// Purge deletes sessions and codes that ended more than a week ago. It is a system
// job.
func (s *Service) Purge(ctx context.Context) error {
	return s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.purge(tx, s.now().Add(-purgeAfter)) })
}

// changed tells every process that what it knows of a user is not so any more.
func changed(tx database.Tx, uid string) error { return tx.Notify(wake.Topic(Changed, uid)) }

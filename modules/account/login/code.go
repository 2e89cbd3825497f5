package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
)

// Kind is what a code is for.
type Kind string

// Link signs its user in; Invite lets whoever has it sign up.
const (
	Link   Kind = "link"
	Invite Kind = "invite"
)

// Lives of codes.
const (
	LinkLife   = 5 * time.Minute
	InviteLife = 7 * 24 * time.Hour
)

// ErrBadCode is the answer for a code that there is not, that was used, or that is
// too old.
var ErrBadCode = errs.New(errs.Unauthorized, "This code is not valid any more.").Do("Ask for another one: each is good once, for a short while.")

// Code is a secret that is good once.
type Code struct {
	Text      string
	ExpiresAt time.Time
}

// Issue makes a code. uid is whom a link signs in, and who invites; empty for an
// invitation of the operator's. The database keeps its hash only.
func (s *Service) Issue(tx database.Tx, kind Kind, uid string, life time.Duration) (Code, error) {
	now := s.now()
	c := Code{Text: rand.Text(), ExpiresAt: now.Add(life)}
	return c, s.rows.insertCode(tx, codeRow{CodeHash: hashOf(c.Text), Kind: string(kind), UID: orNull(uid), CreatedAt: now, ExpiresAt: c.ExpiresAt})
}

// Valid returns whom a code of a kind is about, or ErrBadCode, and leaves it as it
// is.
func (s *Service) Valid(ctx context.Context, kind Kind, text string) (uid string, err error) {
	return s.rows.code(s.db.Read(ctx), kind, hashOf(text), s.now())
}

// Redeem uses a code up, within a transaction, or returns ErrBadCode. Of any number
// of callers, one succeeds.
func (s *Service) Redeem(tx database.Tx, kind Kind, text string) (uid string, err error) {
	return s.rows.redeem(tx, kind, hashOf(text), s.now())
}

// hashOf is what the database keeps. A single SHA-256 is enough for 128 random
// bits.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Package password hashes passwords, slowly and a few at a time.
package password

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/portico-run/portico/internal/errs"
)

// What a new hash costs: 19 MiB of memory, gone through twice by one thread. That
// is what OWASP asks for at least. A hash says what it cost, so that older ones can
// be checked after this has changed.
const (
	memory  = 19 << 10 // KiB
	rounds  = 2
	threads = 1
	saltLen = 16
	hashLen = 32

	// maxMemory and maxRounds bound what a stored hash may ask for.
	maxMemory = 128 << 10 // KiB
	maxRounds = 16
)

// Length of a password, in characters and in bytes.
const (
	MinLength = 10
	MaxBytes  = 1024
)

const (
	atOnce     = 2  // hashes that are made or checked
	maxWaiting = 32 // callers who wait for that
)

// ErrWeak is the refusal of a password that is too short or too long.
var ErrWeak = errs.Newf(errs.Invalid, "A password has at least %d characters and at most %d bytes.", MinLength, MaxBytes)

// ErrBusy is the answer where too many wait for a hash already.
var ErrBusy = errs.New(errs.RateLimited, "Too many sign in at once.").Do("Try again in a few seconds.")

// Hasher makes and checks hashes.
type Hasher struct {
	working chan struct{}
	waiting chan struct{}
	nobody  string // a hash that no password has
}

// New returns a Hasher.
func New() *Hasher {
	h := &Hasher{working: make(chan struct{}, atOnce), waiting: make(chan struct{}, maxWaiting)}
	salt := make([]byte, saltLen)
	_, _ = rand.Read(salt) // never fails: crypto/rand aborts the program instead
	h.nobody = encode(salt, salt[:0], memory, rounds)
	return h
}

// Check returns ErrWeak for text that is no password.
func Check(password string) error {
	if utf8.RuneCountInString(password) < MinLength || len(password) > MaxBytes || !utf8.ValidString(password) {
		return ErrWeak
	}
	return nil
}

// Hash returns a password's hash, in the PHC form.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	if err := Check(password); err != nil {
		return "", err
	}
	leave, err := h.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	salt := make([]byte, saltLen)
	_, _ = rand.Read(salt)
	return encode(salt, argon2.IDKey([]byte(password), salt, rounds, memory, threads, hashLen), memory, rounds), nil
}

// Matches reports whether a hash is of a password. An empty hash is nobody's: that
// takes as long.
func (h *Hasher) Matches(ctx context.Context, hash, password string) (bool, error) {
	if hash == "" {
		hash = h.nobody
	}
	stored, err := decode(hash)
	if err != nil {
		return false, err
	}
	leave, err := h.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	got := argon2.IDKey([]byte(password), stored.salt, stored.rounds, stored.memory, stored.threads, hashLen)
	return subtle.ConstantTimeCompare(got, stored.sum) == 1, nil
}

// enter waits until few enough work.
func (h *Hasher) enter(ctx context.Context) (leave func(), err error) {
	select {
	case h.waiting <- struct{}{}:
	default:
		return nil, ErrBusy
	}
	defer func() { <-h.waiting }()
	select {
	case h.working <- struct{}{}:
		return func() { <-h.working }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type phc struct {
	memory, rounds uint32
	threads        uint8
	salt, sum      []byte
}

func encode(salt, sum []byte, memory, rounds uint32) string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memory, rounds, threads, b64(salt), b64(sum))
}

var errForm = errors.New("a stored password is not a hash that this server makes")

func decode(text string) (p phc, err error) {
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprint("v=", argon2.Version) {
		return phc{}, errForm
	}
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.rounds, &p.threads); n != 3 || err != nil {
		return phc{}, errForm
	}
	if p.memory == 0 || p.memory > maxMemory || p.rounds == 0 || p.rounds > maxRounds || p.threads == 0 {
		return phc{}, errForm
	}
	if p.salt, err = base64.RawStdEncoding.DecodeString(parts[4]); err != nil {
		return phc{}, errForm
	}
	if p.sum, err = base64.RawStdEncoding.DecodeString(parts[5]); err != nil {
		return phc{}, errForm
	}
	return p, nil
}

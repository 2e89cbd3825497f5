package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
)

// The form of API keys: docs/wire/refly.md#api-keys.
const (
	keyPrefix  = "rf_"
	keyBytes   = 24
	keyDigits  = 32 // at least; the largest keys have 33
	keyShown   = 12 // how much of a key its list shows
	base62     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	maxKeyName = 100
	maxKeyDays = 3650
)

// Plaintext is an API key as its user holds it. It prints as its beginning;
// Reveal returns it whole, for the one answer that shows it.
type Plaintext string

// Reveal returns the key itself.
func (p Plaintext) Reveal() string { return string(p) }

// String hides all but the beginning that lists show.
func (p Plaintext) String() string { return p.shown() + "…" }

// GoString hides the key from %#v.
func (p Plaintext) GoString() string { return p.String() }

// LogValue hides the key from the log.
func (p Plaintext) LogValue() slog.Value { return slog.StringValue(p.String()) }

// MarshalText hides the key from JSON.
func (p Plaintext) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

func (p Plaintext) shown() string { return string(p[:min(len(p), keyShown)]) }

// hash is what the database keeps. A single SHA-256 is enough for a key of
// 192 random bits.
func (p Plaintext) hash() string {
	sum := sha256.Sum256([]byte(p))
	return hex.EncodeToString(sum[:])
}

// newPlaintext makes a key from fresh random bytes.
func newPlaintext() Plaintext {
	var random [keyBytes]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand aborts the program instead
	return encodeKey(random)
}

// encodeKey writes the bytes as one big-endian number in base 62, padded to
// 32 digits.
func encodeKey(random [keyBytes]byte) Plaintext {
	n, base, digit := new(big.Int).SetBytes(random[:]), big.NewInt(int64(len(base62))), new(big.Int)
	var reversed []byte
	for n.Sign() > 0 {
		n.DivMod(n, base, digit)
		reversed = append(reversed, base62[digit.Int64()])
	}
	var b strings.Builder
	b.WriteString(keyPrefix)
	for range keyDigits - len(reversed) {
		b.WriteByte('0')
	}
	for _, digit := range slices.Backward(reversed) {
		b.WriteByte(digit)
	}
	return Plaintext(b.String())
}

// Key is an API key without its secret.
type Key struct {
	ID         string
	Name       string
	Prefix     string
	UID        string
	Scope      actor.Scope
	Rights     actor.Rights // of a user's own key
	Admin      bool         // its user is an administrator
	Model      string       // that agents asked with it have; empty for the first
	CreatedAt  time.Time
	LastUsedAt *time.Time
	ExpiresAt  *time.Time
}

// actor is whoever presents the key. An administrator's key that may not do
// everything is no administrator's.
func (k Key) actor() actor.Actor {
	return actor.Actor{UID: k.UID, KeyID: k.ID, Scope: k.Scope, Rights: k.Rights, Model: k.Model, Admin: k.Admin && k.Scope == actor.Full && k.Rights == 0}
}

// live reports whether the key still opens anything.
func (k Key) live(now time.Time) bool { return k.ExpiresAt == nil || k.ExpiresAt.After(now) }

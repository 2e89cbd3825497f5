// Package ids makes and reads the identifiers of the product.
//
// Things are named by a prefix and 24 random lower-case characters
// ("ar-…" a run, "ts-…" a toolset); tool calls by who made them and a UUID
// ("ptc:<uuid>").
package ids

import (
	"crypto/rand"
	"crypto/sha256"
	"math/big"
	"strings"

	"github.com/google/uuid"
)

// The prefixes of ids: docs/wire/refly.md#ids.
const (
	User     = "u"
	Run      = "ar"
	Message  = "am"
	Canvas   = "c"
	File     = "df"
	Toolset  = "ts"
	Key      = "ak"
	Usage    = "cu"
	Debt     = "cd"
	Recharge = "cr"
	Session  = "us"
)

const (
	alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"
	length   = 24
	// unbiased is the largest multiple of len(alphabet) that fits a byte:
	// bytes from it on would favour the first letters.
	unbiased = 256 - 256%len(alphabet)
)

// New returns a fresh identifier with the given prefix.
func New(prefix string) string {
	out := make([]byte, 0, len(prefix)+1+length)
	out = append(append(out, prefix...), '-')
	var buf [2 * length]byte
	for len(out) < cap(out) {
		_, _ = rand.Read(buf[:]) // never fails: crypto/rand aborts the program instead
		for _, b := range buf {
			if int(b) < unbiased && len(out) < cap(out) {
				out = append(out, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(out)
}

// MessageOf returns the id of the message of a tool call. It follows from the
// call's id, so that whoever knows the call knows its message.
func MessageOf(callID string) string {
	sum := sha256.Sum256([]byte(callID))
	digits := new(big.Int).SetBytes(sum[:]).Text(len(alphabet))
	return Message + "-" + strings.Repeat("0", max(0, length-len(digits))) + digits[:min(length, len(digits))]
}

// Origin says who made a tool call. It is the prefix of the call's id and the
// type column of its record.
type Origin string

// The origins of calls: docs/wire/refly.md#ids-of-calls.
const (
	PTC        Origin = "ptc"        // code in a sandbox
	Standalone Origin = "standalone" // a direct request
	Agent      Origin = "agent"      // a model, or the program the sandbox runs
)

// The two separators between origin and UUID. The colon is the default; the
// underscore is what model providers accept.
const (
	Colon      = ":"
	Underscore = "_"
)

// Calls makes call ids with one separator.
type Calls struct{ Separator string }

// New returns a fresh call id.
func (c Calls) New(o Origin) string {
	return string(o) + c.Separator + uuid.NewString()
}

// MadeByCode reports whether a call id is one of code in a sandbox, whatever
// made the rest of it.
func MadeByCode(callID string) bool {
	return strings.HasPrefix(callID, string(PTC)+Underscore) || strings.HasPrefix(callID, string(PTC)+Colon)
}

// OriginOf reads the origin out of a call id written with either separator.
func OriginOf(callID string) (Origin, bool) {
	for _, o := range []Origin{PTC, Standalone, Agent} {
		rest, ok := strings.CutPrefix(callID, string(o))
		if !ok || rest == "" || (rest[:1] != Colon && rest[:1] != Underscore) {
			continue
		}
		if uuid.Validate(rest[1:]) == nil {
			return o, true
		}
	}
	return "", false
}

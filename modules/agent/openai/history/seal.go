package history

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/agent/openai/failure"
)

// Seals make the fingerprints of programs: a client that sends one back sends the
// program back that its user's model wrote here.
type Seals struct {
	Box  *secretbox.Box
	Life time.Duration // of a fingerprint
	Now  func() time.Time
}

// sealed is what a fingerprint says.
type sealed struct {
	User string `json:"u"`
	ID   string `json:"i"`
	Hash string `json:"h"`
	Ends int64  `json:"e"`
}

func hashOf(code string) string {
	sum := sha256.Sum256([]byte(code))
	return hex.EncodeToString(sum[:])
}

// Fingerprint is that of a program.
func (s Seals) Fingerprint(a actor.Actor, id, code string) string {
	text, _ := json.Marshal(sealed{User: a.UID, ID: id, Hash: hashOf(code), Ends: s.Now().Add(s.Life).Unix()}) // texts always marshal
	return s.Box.Seal(text)
}

// check refuses a program that is not the user's, or was changed.
func (s Seals) check(a actor.Actor, i item) error {
	var got sealed
	text, err := s.Box.Open(i.Seal)
	if err != nil || json.Unmarshal(text, &got) != nil || got.User != a.UID || got.ID != i.CallID || got.Hash != hashOf(i.Code) {
		return failure.Invalid(i.at+".fingerprint", "The fingerprint is not that of this program.").Do("Send items of type program back exactly as they came.")
	}
	if s.Now().Unix() >= got.Ends {
		return failure.Invalid(i.at+".fingerprint", "The program is too old to be sent back.").Do("Leave its items out of the conversation.")
	}
	return nil
}

package session

import (
	"crypto/rand"
	"regexp"
)

// idLength and idAlphabet are what LibreChat accepts as ids of sessions and
// files.
const (
	idLength   = 21
	idAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
)

var idForm = regexp.MustCompile(`^[A-Za-z0-9_-]{21}$`)

// NewID makes an id of a session, a file or a program, which nobody can guess.
func NewID() string {
	id := make([]byte, idLength)
	_, _ = rand.Read(id) // never fails: crypto/rand aborts the program instead
	for i := range id {
		id[i] = idAlphabet[id[i]%byte(len(idAlphabet))] // 64 letters: every byte is as likely
	}
	return string(id)
}

func validID(id string) bool { return idForm.MatchString(id) }

// Package files is the part of Anthropic's Files API that programs need: files that
// clients upload for them, and those that they leave. They are files of sessions.
package files

import "strings"

// prefix begins the ids of files, before those of their session and of the file in it,
// which have idLength characters each.
const (
	prefix   = "file_"
	idLength = 21
)

// ID names a file of a session.
func ID(session, id string) string { return prefix + session + id }

// ParseID undoes ID.
func ParseID(text string) (session, id string, ok bool) {
	both, ok := strings.CutPrefix(text, prefix)
	if !ok || len(both) != 2*idLength {
		return "", "", false
	}
	return both[:idLength], both[idLength:], true
}

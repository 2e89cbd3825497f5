package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/mediatype"
)

// File is one file of a session.
type File struct {
	ID          string
	SessionID   string
	Stored      string // the session that holds the content, where it is another one
	Name        string // relative to the program's folder, with slashes
	Size        int64
	ContentType string
	Digest      string // SHA-256 of the content, hexadecimal
	// ReadOnly files cannot be written by programs, and stay what they are.
	ReadOnly bool
	// Owner is whom the file belongs to on the client's side.
	Owner     FileOwner
	CreatedAt time.Time
}

// FileOwner is how a client marks its files; the API keeps it for the client.
type FileOwner struct {
	Kind       string
	ResourceID string
	Version    string
}

// KindSkill is the FileOwner.Kind of files that may have a version.
const KindSkill = "skill"

// Check says which member is wrong, and how. Older clients name no kind.
func (o FileOwner) Check() string {
	if !slices.Contains([]string{"", "user", "agent", KindSkill}, o.Kind) {
		return "kind must be user, agent or skill"
	}
	var number float64
	if o.Kind == KindSkill && o.Version != "" && json.Unmarshal([]byte(o.Version), &number) != nil {
		return "version must be a number"
	}
	for name, value := range map[string]string{"id": o.ResourceID, "version": o.Version} {
		if !utf8.ValidString(value) || strings.Contains(value, "\x00") {
			return name + " must be UTF-8 without NUL"
		}
	}
	return ""
}

// FileRef names a file of a session under the name a program is to find.
type FileRef struct {
	ID        string
	SessionID string
	Name      string
}

// name is what the reference is called in messages.
func (r FileRef) name() string {
	if name := CleanName(r.Name); name != "" {
		return name
	}
	return "a file without a name"
}

// Errors of files.
var (
	ErrFileMissing = errs.New(errs.NotFound, "File not found")
	ErrBadID       = errs.New(errs.Invalid, "Invalid session or file id")
	// ErrFileReference is returned for a request that names files which are
	// deleted, expired or somebody else's: nothing tells these apart.
	ErrFileReference = errs.New(errs.Forbidden, "Unauthorized file reference")
)

// Upload is a file as it comes in.
type Upload struct {
	Name     string
	Body     io.ReadSeeker
	Size     int64 // of Body, in bytes
	ReadOnly bool  // see File
}

// key is where a file's content is in object storage.
func (f File) key(uid string) string { return path.Join("code", uid, f.home(), f.ID) }

// home is the session that holds the content.
func (f File) home() string {
	if f.Stored != "" {
		return f.Stored
	}
	return f.SessionID
}

// describe reads a body to its end, for its type and its digest, and goes back
// to its beginning.
func describe(u Upload) (contentType, digest string, err error) {
	head := make([]byte, mediatype.Sniff)
	n, err := io.ReadFull(u.Body, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", "", err
	}
	sum := sha256.New()
	_, _ = sum.Write(head[:n]) // a hash takes everything
	if _, err = io.Copy(sum, u.Body); err == nil {
		_, err = u.Body.Seek(0, io.SeekStart)
	}
	return mediatype.Of(u.Name, head[:n]), hex.EncodeToString(sum.Sum(nil)), err
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Limits of a file's name.
const (
	maxName   = 256 // characters
	maxLevels = 10  // the file's own name is one
	// NameLimits says them in words.
	NameLimits = "256 characters or 10 levels"
)

// CleanName makes a file's name relative to the program's folder. It is empty
// for a name that no file there can have, and for one over the limits.
func CleanName(name string) string {
	name = strings.ReplaceAll(name, `\`, "/")
	name = strings.TrimPrefix(name, "/mnt/data/")
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return ""
	}
	// Rooted first, so that no name leads out of the folder.
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > 255 {
			return ""
		}
	}
	if utf8.RuneCountInString(name) > maxName || strings.Count(name, "/") >= maxLevels {
		return ""
	}
	return name
}

package drive

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/errs"
)

// Source says where a file comes from.
type Source string

// The sources of files: docs/wire/refly.md#drive-files.
const (
	Manual Source = "manual" // uploaded
	Agent  Source = "agent"  // left by a program or a tool
)

// File is what is known about a file.
type File struct {
	FileID   string
	CanvasID string
	Name     string // unique in its canvas
	Type     string // media type
	Size     int64
	Source   Source
	// Summary says what is in it, where that is known.
	Summary string
	// ResultID and Version are the run that made it; empty for an upload.
	ResultID  string
	Version   int
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Category is the kind of file by its media type: docs/wire/refly.md#drive-files.
func (f File) Category() string {
	kind, _, _ := strings.Cut(f.Type, "/")
	switch {
	case kind == "image" || kind == "video" || kind == "audio":
		return kind
	case kind == "text" || strings.Contains(f.Type, "pdf") || strings.Contains(f.Type, "json") || strings.Contains(f.Type, "document"):
		return "document"
	}
	return "others"
}

// Errors of files.
var (
	ErrMissing       = errs.New(errs.FileMissing, "Drive file not found, please refresh").Do("Check the id and the canvas; a file is visible to its own user only.")
	ErrCanvasMissing = errs.New(errs.CanvasMissing, "Canvas not found, please refresh").Do("Make one with POST /v1/canvas/create.")
	ErrFull          = errs.New(errs.StorageFull, "Storage quota exceeded, please upgrade your subscription")
	ErrTooLarge      = errs.New(errs.TooLarge, "The file is too large.")
)

// key is what clients are told of where the content of a file is, and where it is as
// long as nothing else was stored under its name: docs/wire/refly.md#drive-files.
func key(uid, canvasID, name string) string { return path.Join("drive", uid, canvasID, name) }

// contentKey is where other content is. The id is of this content alone: what was there is
// taken away when it is over, and may be read until then.
func contentKey(uid, id, canvasID, name string) string {
	return path.Join("drive", uid, id, canvasID, name)
}

// maxName is the longest name of a file, in bytes.
const maxName = 200

// reserved are names that Windows keeps for devices, with any extension.
var reserved = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)

// CleanName makes a name that a file can have on every system: one part of a
// path, without characters that some system refuses. It is never empty.
func CleanName(name string) string {
	name = strings.ToValidUTF8(name, "-")
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`<>:"/\|?*`, r) || unicode.IsControl(r) || r == utf8.RuneError {
			return '-'
		}
		return r
	}, name)
	name = strings.TrimLeft(strings.TrimRight(name, ". "), " -")
	if reserved.MatchString(name) {
		name = "_" + name
	}
	if len(name) > maxName {
		ext := path.Ext(name)
		if len(ext) > 20 {
			ext = ""
		}
		name = strings.ToValidUTF8(name[:maxName-len(ext)], "") + ext
	}
	if name == "" || name == ext(name) {
		name = "file" + name
	}
	return name
}

func ext(name string) string { return path.Ext(name) }

// numbered is a name with a number before its extension.
func numbered(name string, n int) string {
	base := strings.TrimSuffix(name, ext(name))
	return fmt.Sprintf("%s-%d%s", base, n, ext(name))
}

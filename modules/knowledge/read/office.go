package read

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/portico-run/portico/modules/sandbox"
)

// Sandbox runs code.
type Sandbox interface {
	Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error)
}

// Bounds of documents of other programs.
const (
	// maxOffice is the largest file, in bytes.
	maxOffice = 48 << 20
	// maxPages is how many pages of a PDF are read, and maxCharacters how much text
	// comes of one document.
	maxPages      = 1500
	maxCharacters = 8 << 20
	// maxUnpacked is how large the parts of a Word file are together, and
	// maxParts how many there are.
	maxUnpacked = 96 << 20
	maxParts    = 5000
)

// Office reads PDF and Word files with a program of ours in the sandbox: a file
// that was made to break its reader breaks nothing else.
type Office struct {
	Sandbox Sandbox
	// Timeout bounds the reading of one file.
	Timeout time.Duration
	// Owner is the user whose share of the sandbox is used; empty for the
	// server's own work.
	Owner string
}

//go:embed office.py
var officeProgram string

// kindOffice is what the program is told about a file.
type kindOffice string

const (
	kindPDF  kindOffice = "pdf"
	kindDocx kindOffice = "docx"
)

// Read implements Reader. It reads what the first bytes say the file is.
func (o Office) Read(ctx context.Context, s Source) (Document, error) {
	if s.Size > maxOffice {
		return Document{}, tooLargeOffice()
	}
	b, err := content(s, maxOffice)
	if err != nil {
		return Document{}, err
	}
	kind, err := officeKind(b)
	if err != nil {
		return Document{}, err
	}
	request, err := json.Marshal(map[string]any{
		"kind": kind, "pages": maxPages, "characters": maxCharacters, "unpacked": maxUnpacked, "parts": maxParts,
	})
	if err != nil {
		return Document{}, err
	}
	result, err := o.Sandbox.Run(ctx, sandbox.Job{
		Owner: o.Owner, Code: officeProgram, Language: sandbox.Python, Timeout: o.Timeout,
		Inputs:  []sandbox.File{{Path: "document", Content: b, ReadOnly: true}, {Path: "request.json", Content: request}},
		Collect: sandbox.Collect{MaxFiles: 4, MaxBytes: int64(len(b)) + 6*maxCharacters},
	})
	if err != nil {
		return Document{}, err
	}
	return officeDocument(ctx, s.Name, result)
}

func tooLargeOffice() error {
	return ErrTooLarge.Do(fmt.Sprintf("PDF and Word files have at most %d MiB. Split it, or take large images out.", maxOffice>>20))
}

// officeKind is what a file is by its first bytes; PDF files may have others
// before.
func officeKind(b []byte) (kindOffice, error) {
	head := string(b[:min(len(b), 1024)])
	switch {
	case len(b) == 0:
		return "", ErrEmpty.Do("The file is empty.")
	case strings.Contains(head, "%PDF-"):
		return kindPDF, nil
	case strings.HasPrefix(head, "PK\x03\x04"):
		return kindDocx, nil
	case strings.HasPrefix(head, "\xd0\xcf\x11\xe0"):
		return "", ErrEncrypted.Do("It is a Word file with a password, or in the format of before 2007. Save it as .docx without a password.")
	}
	return "", ErrType.Do("It is neither a PDF nor a Word file (.docx), whatever its name says.")
}

func officeDocument(ctx context.Context, name string, result sandbox.Result) (Document, error) {
	switch result.Status {
	case sandbox.Completed:
	case sandbox.Cancelled:
		return Document{}, context.Cause(ctx)
	case sandbox.TimedOut:
		return Document{}, ErrTooLarge.Do("To read it took too long. Split it.").With(errors.New(result.Stderr))
	case sandbox.OutOfMemory, sandbox.Killed:
		return Document{}, ErrTooLarge.Do("To read it takes more memory than there is. Split it.").With(errors.New(result.Stderr))
	default:
		return Document{}, ErrDamaged.Do("Perhaps it is damaged. Save it again with the program that made it.").With(errors.New(result.Stderr))
	}
	for _, f := range result.Outputs {
		if f.Path == "answer.json" {
			return decodeOffice(name, f.Content)
		}
	}
	return Document{}, fmt.Errorf("the program that reads documents left no answer: %s", result.Stderr)
}

func decodeOffice(name string, answer []byte) (Document, error) {
	var a struct {
		Problem, Detail, Title string
		Sections               []Section
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return Document{}, fmt.Errorf("the answer of the program that reads documents: %w", err)
	}
	switch a.Problem {
	case "":
	case "encrypted":
		return Document{}, ErrEncrypted.Do(a.Detail)
	case "empty":
		return Document{}, ErrEmpty.Do(a.Detail)
	case "large":
		return Document{}, ErrTooLarge.Do(a.Detail)
	case "type":
		return Document{}, ErrType.Do(a.Detail)
	default:
		return Document{}, ErrDamaged.Do(a.Detail)
	}
	d := Document{Source: name, Title: strings.TrimSpace(a.Title)}
	if d.Title == "" {
		d.Title = path.Base(name)
	}
	for _, s := range a.Sections {
		if strings.TrimSpace(s.Text) != "" {
			d.Sections = append(d.Sections, s)
		}
	}
	if len(d.Sections) == 0 {
		return Document{}, ErrEmpty.Do("There is no text in it.")
	}
	return d, nil
}

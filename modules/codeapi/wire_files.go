package codeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/sandbox"
)

// fileRefBody is an input file in the forms of all generations of clients. The
// id is what finds a file; whom it belongs to on the client's side is read so
// that a request which means something else is refused.
type fileRefBody struct {
	_                struct{}        `additionalProperties:"true"`
	ID               string          `json:"id"`
	Name             string          `json:"name" doc:"Where the program finds it in /mnt/data; no more than 256 characters or 10 levels"`
	SessionID        string          `json:"session_id"`
	StorageSessionID string          `json:"storage_session_id"`
	Kind             string          `json:"kind,omitempty" enum:"user,agent,skill," doc:"Whom it belongs to on the client's side; empty is the same as none"`
	ResourceID       string          `json:"resource_id,omitempty"`
	Version          json.RawMessage `json:"version,omitempty" doc:"A number, of a skill only"`
}

func toRefs(files []fileRefBody) ([]session.FileRef, error) {
	refs := make([]session.FileRef, len(files))
	for i, f := range files {
		if err := f.check(); err != "" {
			return nil, errs.Newf(errs.Invalid, "files[%d].%s", i, err)
		}
		refs[i] = session.FileRef{ID: f.ID, SessionID: f.StorageSessionID, Name: f.Name}
		if refs[i].SessionID == "" {
			refs[i].SessionID = f.SessionID
		}
	}
	return refs, nil
}

// check says which member is wrong, and how.
func (f fileRefBody) check() string {
	version := unquoted(f.Version)
	switch {
	case f.Name != "" && session.CleanName(f.Name) == "":
		return "name must be a path below /mnt/data of no more than " + session.NameLimits
	case f.Kind != session.KindSkill && version != "":
		return "version is for kind skill only"
	}
	return session.FileOwner{Kind: f.Kind, Version: version}.Check()
}

func unquoted(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil { // null leaves it empty
		return text
	}
	return string(raw)
}

// versionOf is the version of a skill's file as clients read it, a number;
// other files have none.
func versionOf(o session.FileOwner) json.RawMessage {
	if o.Kind != session.KindSkill || o.Version == "" {
		return nil
	}
	return json.RawMessage(o.Version)
}

// codeFile is a file in answers, with the field names of all generations.
type codeFile struct {
	ID               string            `json:"id"`
	Name             string            `json:"name"`
	Path             string            `json:"path"`
	SessionID        string            `json:"session_id"`
	StorageSessionID string            `json:"storage_session_id"`
	Size             int64             `json:"size"`
	ContentType      string            `json:"contentType"`
	Kind             string            `json:"kind,omitempty"`
	ResourceID       string            `json:"resource_id,omitempty"`
	Version          json.RawMessage   `json:"version,omitempty"`
	Inherited        bool              `json:"inherited,omitempty" doc:"An input that is as it was; a read-only one always is"`
	ModifiedFrom     map[string]string `json:"modified_from,omitempty"`
}

func toCodeFile(f session.File) codeFile {
	return codeFile{
		ID: f.ID, Name: f.Name, Path: path.Join(sandbox.WorkDir, f.Name), SessionID: f.SessionID, StorageSessionID: f.SessionID,
		Size: f.Size, ContentType: f.ContentType, Kind: f.Owner.Kind, ResourceID: f.Owner.ResourceID, Version: versionOf(f.Owner),
	}
}

func toCodeFiles(p session.Produced) []codeFile {
	files := make([]codeFile, len(p.Files))
	for i, f := range p.Files {
		files[i] = toCodeFile(f.File)
		files[i].Inherited = f.Inherited
		if f.From != nil {
			files[i].ModifiedFrom = map[string]string{"id": f.From.ID, "storage_session_id": f.From.SessionID}
		}
	}
	return files
}

// artifactDelivery says that files of a program were not kept.
type artifactDelivery struct {
	Code      string `json:"code" enum:"artifact_delivery_failed"`
	Status    string `json:"status" enum:"failed"`
	Attempted int    `json:"attempted"`
	Delivered int    `json:"delivered"`
	Failed    int    `json:"failed"`
}

func toArtifactDelivery(p session.Produced) *artifactDelivery {
	if p.Undelivered == 0 {
		return nil
	}
	return &artifactDelivery{Code: "artifact_delivery_failed", Status: "failed", Attempted: p.Undelivered, Failed: p.Undelivered}
}

// withRefused says that files of the program were not kept.
func withRefused(stderr string, p session.Produced) string {
	if p.Undelivered == 0 {
		return stderr
	}
	why := errs.Message(p.Refused)
	if e, ok := errors.AsType[*errs.Error](p.Refused); ok {
		why = sentence(e)
	}
	return sandbox.Note(stderr, fmt.Sprintf("%d new files of the program were not kept: %s", p.Undelivered, why))
}

package codeapi

import (
	"encoding/json"
	"net/http"
	"path"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/codeapi/session"
)

// objectBody describes a file as clients of all generations read it.
type objectBody struct {
	ID               string            `json:"id"`
	Name             string            `json:"name" doc:"session/file.ext"`
	Filename         string            `json:"filename"`
	OriginalFilename string            `json:"originalFilename" doc:"The same"`
	SessionID        string            `json:"session_id"`
	StorageSessionID string            `json:"storage_session_id"`
	Size             int64             `json:"size"`
	LastModified     time.Time         `json:"lastModified"`
	ETag             string            `json:"etag"`
	ContentType      string            `json:"contentType"`
	ReadOnly         bool              `json:"readOnly" doc:"Programs cannot write it, and it stays what it is"`
	Kind             string            `json:"kind,omitempty"`
	ResourceID       string            `json:"resource_id,omitempty"`
	Version          json.RawMessage   `json:"version" doc:"That of the skill; of other files a text that names the content"`
	Metadata         map[string]string `json:"metadata"`
}

// objectName is a file as a path of storage; clients take the id from it.
func objectName(f session.File) string { return f.SessionID + "/" + f.ID + path.Ext(f.Name) }

func toObjectBody(f session.File) objectBody {
	version := versionOf(f.Owner)
	if version == nil {
		version = json.RawMessage(`"sha256:` + f.Digest + `"`)
	}
	return objectBody{
		ID: f.ID, Name: objectName(f), Filename: f.Name, OriginalFilename: f.Name, SessionID: f.SessionID, StorageSessionID: f.SessionID,
		Size: f.Size, LastModified: f.CreatedAt, ETag: f.Digest, ContentType: f.ContentType, ReadOnly: f.ReadOnly,
		Kind: f.Owner.Kind, ResourceID: f.Owner.ResourceID, Version: version,
		Metadata: map[string]string{"content-type": f.ContentType, "original-filename": f.Name},
	}
}

// normalizedBody is a file with what a request needs to name it.
type normalizedBody struct {
	ID               string    `json:"id"`
	Name             string    `json:"name"`
	StorageSessionID string    `json:"storage_session_id"`
	Size             int64     `json:"size"`
	ContentType      string    `json:"contentType"`
	LastModified     time.Time `json:"lastModified"`
	ReadOnly         bool      `json:"read_only,omitempty"`
}

type summaryBody struct {
	Name         string    `json:"name"`
	Size         int64     `json:"size"`
	LastModified time.Time `json:"lastModified"`
	ETag         string    `json:"etag"`
}

// detailed returns how a list shows a file.
func detailed(detail string) (func(session.File) any, error) {
	switch detail {
	case "", "full":
		return func(f session.File) any { return toObjectBody(f) }, nil
	case "normalized":
		return func(f session.File) any {
			return normalizedBody{f.ID, f.Name, f.SessionID, f.Size, f.ContentType, f.CreatedAt, f.ReadOnly}
		}, nil
	case "summary":
		return func(f session.File) any { return summaryBody{objectName(f), f.Size, f.CreatedAt, f.Digest} }, nil
	case "simple":
		return func(f session.File) any { return objectName(f) }, nil
	}
	return nil, errs.New(errs.Invalid, "detail must be simple, summary, full or normalized.")
}

func (c controller) list(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	show, err := detailed(r.URL.Query().Get("detail"))
	if err != nil {
		return err
	}
	files, err := c.sessions.Files(r.Context(), who, r.PathValue("session"))
	if err != nil {
		return err
	}
	list := make([]any, len(files))
	for i, f := range files {
		list[i] = show(f)
	}
	return write(w, http.StatusOK, list)
}

package files

import (
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/drive"
)

// Controller answers the routes of files.
type Controller struct {
	Sessions *session.Service
	// MaxFile is the largest file, in bytes.
	MaxFile int64
}

// handler answers an operation.
type handler = func(w http.ResponseWriter, r *http.Request, who actor.Actor) error

// formSpace is what a form may have around its file, in bytes.
const formSpace = 64 << 10

// FileMetadata is what is known of a file: docs/wire/anthropic.md#files.
type FileMetadata struct {
	Type         string    `json:"type" enum:"file"`
	ID           string    `json:"id" example:"file_tQ7m2XkP9vR4sW1yZ6aB3n5DfG8hJ2kLqM4pS7tV0x"`
	Filename     string    `json:"filename"`
	MimeType     string    `json:"mime_type" example:"text/csv"`
	SizeBytes    int64     `json:"size_bytes"`
	CreatedAt    time.Time `json:"created_at"`
	Downloadable bool      `json:"downloadable"`
}

type fileList struct {
	Data     []FileMetadata `json:"data"`
	HasMore  bool           `json:"has_more"`
	FirstID  *string        `json:"first_id" example:"file_tQ7m2XkP9vR4sW1yZ6aB3n5DfG8hJ2kLqM4pS7tV0x"`
	LastID   *string        `json:"last_id" example:"file_tQ7m2XkP9vR4sW1yZ6aB3n5DfG8hJ2kLqM4pS7tV0x"`
	NextPage *string        `json:"next_page" doc:"Asks for what follows, as page" example:"file_tQ7m2XkP9vR4sW1yZ6aB3n5DfG8hJ2kLqM4pS7tV0x"`
}

type fileDeleted struct {
	Type string `json:"type" enum:"file_deleted"`
	ID   string `json:"id"`
}

type fileForm struct {
	File httpapi.File `json:"file"`
}

type fileInput struct {
	File string `path:"file" doc:"The id of the file"`
}

type listInput struct {
	Limit int    `query:"limit" minimum:"1" maximum:"1000" doc:"20 where it is left out"`
	Page  string `query:"page" doc:"next_page of the answer before"`
}

// Register adds the routes.
func (c Controller) Register(raw func(op httpapi.Operation, fn handler)) {
	const base = "/anthropic/v1/files"
	raw(httpapi.Operation{
		ID: "upload-anthropic-file", Method: http.MethodPost, Path: base, Summary: "Store a file for programs, in Anthropic's form", Runs: true,
		Description: "multipart/form-data with the part file. A block container_upload of a message gives it to programs.",
		BodyLimit:   c.MaxFile + formSpace, Raw: httpapi.Description{Form: fileForm{}, Answers: []any{FileMetadata{}}}, Errors: []errs.Code{errs.StorageFull},
	}, c.upload)
	raw(httpapi.Operation{
		ID: "list-anthropic-files", Method: http.MethodGet, Path: base, Summary: "The files of programs, the newest first, in Anthropic's form", Runs: true,
		Raw: httpapi.Description{Input: listInput{}, Answers: []any{fileList{}}},
	}, c.list)
	raw(httpapi.Operation{
		ID: "get-anthropic-file", Method: http.MethodGet, Path: base + "/{file}", Summary: "What is known about a file, in Anthropic's form", Runs: true,
		Raw: httpapi.Description{Input: fileInput{}, Answers: []any{FileMetadata{}}}, Errors: []errs.Code{errs.NotFound},
	}, c.metadata)
	raw(httpapi.Operation{
		ID: "download-anthropic-file", Method: http.MethodGet, Path: base + "/{file}/content", Summary: "A file's content", Runs: true,
		Raw: httpapi.Description{Input: fileInput{}, Media: httpapi.AnyFile(), Statuses: httpapi.PartStatuses()}, Errors: []errs.Code{errs.NotFound},
	}, c.content)
	raw(httpapi.Operation{
		ID: "delete-anthropic-file", Method: http.MethodDelete, Path: base + "/{file}", Summary: "Delete a file, in Anthropic's form", Runs: true,
		Raw: httpapi.Description{Input: fileInput{}, Answers: []any{fileDeleted{}}}, Errors: []errs.Code{errs.NotFound},
	}, c.remove)
}

func write(w http.ResponseWriter, body any) error {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // a caller that is gone
	return nil
}

func metadataOf(f session.File) FileMetadata {
	return FileMetadata{
		Type: "file", ID: ID(f.SessionID, f.ID), Filename: f.Name, MimeType: f.ContentType, SizeBytes: f.Size, CreatedAt: f.CreatedAt, Downloadable: true,
	}
}

func missing(id string) error { return errs.Newf(errs.NotFound, "File not found: %s", id) }

// named are the session and the id of the file that a request names.
func named(r *http.Request) (text, of, id string, err error) {
	text = r.PathValue("file")
	of, id, ok := ParseID(text)
	if !ok {
		return text, "", "", missing(text)
	}
	return text, of, id, nil
}

// found puts the error of a file that is not there, or is another user's, into the
// vendor's words.
func found(id string, err error) error {
	if code := errs.CodeOf(err); code == errs.NotFound || code == errs.Invalid {
		return missing(id)
	}
	return err
}

func (c Controller) upload(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	r.Body = http.MaxBytesReader(w, r.Body, c.MaxFile+formSpace)
	parts, err := r.MultipartReader()
	if err != nil {
		return errs.New(errs.Invalid, "The body is not multipart/form-data").Do("Send the file as the part file.").With(err)
	}
	for {
		part, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return errs.New(errs.Invalid, "file: Field required")
		case err != nil:
			return unreadable(err)
		case part.FormName() == "expires_in_seconds":
			return errs.New(errs.Invalid, "expires_in_seconds: files are kept until some time after their last use here.").Do("Leave it out, or delete the file when it is not needed.")
		case part.FormName() == "file":
			return c.store(w, r, who, part)
		}
	}
}

// store keeps one file.
func (c Controller) store(w http.ResponseWriter, r *http.Request, who actor.Actor, part *multipart.Part) error {
	body, err := drive.Spool()
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // it has no name, and nothing of it is kept
	size, err := io.Copy(body, part)
	if err != nil {
		return unreadable(err)
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	name := part.FileName()
	if name == "" {
		name = "file"
	}
	_, files, problems, err := c.Sessions.Upload(r.Context(), who, session.FileOwner{}, []session.Upload{{Name: name, Body: body, Size: size}})
	if err == nil {
		err = problems[0]
	}
	if err != nil {
		return err
	}
	return write(w, metadataOf(files[0]))
}

func unreadable(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errs.Newf(errs.TooLarge, "The upload is larger than %d bytes.", tooLarge.Limit)
	}
	return errs.New(errs.Invalid, "The upload cannot be read").With(err)
}

func (c Controller) list(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	query := r.URL.Query()
	limit := 20
	if text := query.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > 1000 {
			return errs.New(errs.Invalid, "limit: Input should be a number from 1 to 1000")
		}
	}
	var after *session.File
	if page := query.Get("page"); page != "" {
		of, id, ok := ParseID(page)
		if !ok {
			return errs.New(errs.Invalid, "page: Input should be next_page of an answer")
		}
		f, err := c.Sessions.File(r.Context(), who, of, id)
		if err != nil {
			return found(page, err)
		}
		after = &f
	}
	files, err := c.Sessions.Recent(r.Context(), who, after, limit+1)
	if err != nil {
		return err
	}
	body := fileList{Data: []FileMetadata{}, HasMore: len(files) > limit}
	for _, f := range files[:min(limit, len(files))] {
		body.Data = append(body.Data, metadataOf(f))
	}
	if n := len(body.Data); n > 0 {
		body.FirstID, body.LastID = &body.Data[0].ID, &body.Data[n-1].ID
	}
	if body.HasMore {
		body.NextPage = body.LastID
	}
	return write(w, body)
}

func (c Controller) metadata(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	text, of, id, err := named(r)
	if err != nil {
		return err
	}
	f, err := c.Sessions.File(r.Context(), who, of, id)
	if err != nil {
		return found(text, err)
	}
	return write(w, metadataOf(f))
}

func (c Controller) content(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	text, of, id, err := named(r)
	if err != nil {
		return err
	}
	f, content, err := c.Sessions.Open(r.Context(), who, of, id)
	if err != nil {
		return found(text, err)
	}
	defer func() { _ = content.Close() }() // it was only read
	h := w.Header()
	httpapi.Download(h, path.Base(f.Name), f.ContentType)
	h.Set("ETag", `"`+f.Digest+`"`)
	http.ServeContent(w, r, "", f.CreatedAt, content)
	return nil
}

func (c Controller) remove(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	text, of, id, err := named(r)
	if err != nil {
		return err
	}
	if err := c.Sessions.Delete(r.Context(), who, of, id); err != nil {
		return found(text, err)
	}
	return write(w, fileDeleted{Type: "file_deleted", ID: text})
}

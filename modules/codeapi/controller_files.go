package codeapi

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path"
	"strconv"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/drive"
)

func (c controller) registerFiles(raw func(httpapi.Operation, handler)) {
	raw(httpapi.Operation{
		ID: "upload-file", Method: http.MethodPost, Path: "/upload", Summary: "Store a file in a session of its own",
		Description: "multipart/form-data with the part file. The field read_only makes it a file that programs cannot write and that stays what it is; " +
			"kind, id and version say whom it belongs to on the client's side.", BodyLimit: 4 * c.settings.MaxFile,
		Raw:    httpapi.Description{Input: profileInput{}, Form: uploadForm{}, Answers: []any{uploadedBody{}}},
		Errors: []errs.Code{errs.Conflict, errs.StorageFull},
	}, c.upload)
	raw(httpapi.Operation{
		ID: "upload-files", Method: http.MethodPost, Path: "/upload/batch", Summary: "Store files in a session of their own",
		Description: "multipart/form-data with parts file, and the fields of /upload, which are for all of them. Each file has its own result; 400 when no file was stored.",
		Raw: httpapi.Description{
			Input: profileInput{}, Form: uploadForm{}, Answers: []any{uploadedBody{}}, Statuses: map[int]string{http.StatusBadRequest: "No file was stored"},
		},
		BodyLimit: 4 * c.settings.MaxFile, Errors: []errs.Code{errs.Conflict, errs.StorageFull},
	}, c.uploadBatch)
	raw(httpapi.Operation{
		ID: "list-session-files", Method: http.MethodGet, Path: "/files/{session}", Summary: "The files of a session",
		Raw:    httpapi.Description{Input: detailInput{}, Answers: []any{[]objectBody{}, []normalizedBody{}, []summaryBody{}, []string{"tQ7m2XkP9vR4sW1yZ6aB3/n5DfG8hJ2kLqM4pS7tV0x.csv"}}},
		Errors: []errs.Code{errs.Conflict},
	}, c.list)
	for id, path := range map[string]string{"delete-session-file": "/files/{session}/{file}", "delete-session-object": "/sessions/{session}/objects/{file}"} {
		raw(httpapi.Operation{
			ID: id, Method: http.MethodDelete, Path: path, Summary: "Delete a file",
			Raw: httpapi.Description{Input: fileInput{}, Answers: []any{codeMessage{"File deleted successfully"}}}, Errors: []errs.Code{errs.NotFound, errs.Conflict},
		}, c.remove)
	}
	raw(httpapi.Operation{
		ID: "download-session-file", Method: http.MethodGet, Path: "/download/{session}/{file}", Summary: "A file's content",
		Raw:    httpapi.Description{Input: fileInput{}, Media: httpapi.AnyFile(), Statuses: httpapi.PartStatuses()},
		Errors: []errs.Code{errs.NotFound, errs.Conflict},
	}, c.download)
	raw(httpapi.Operation{
		ID: "get-session-object", Method: http.MethodGet, Path: "/sessions/{session}/objects/{file}", Summary: "What is known about a file",
		Raw: httpapi.Description{Input: fileInput{}, Answers: []any{objectBody{}}}, Errors: []errs.Code{errs.NotFound, errs.Conflict},
	}, c.object)
}

type sessionInput struct {
	profileInput
	Session string `path:"session" pattern:"^[A-Za-z0-9_-]{21}$" doc:"The session"`
}

type detailInput struct {
	sessionInput
	Detail string `query:"detail" enum:"full,normalized,summary,simple," doc:"full, the default; normalized, with what a request needs to name the file; summary; or simple, names only"`
}

type fileInput struct {
	sessionInput
	File string `path:"file" pattern:"^[A-Za-z0-9_-]{21}$" doc:"The file"`
}

// uploadForm describes what form reads.
type uploadForm struct {
	File     httpapi.File `json:"file" doc:"The file; /upload/batch takes several"`
	ReadOnly string       `json:"read_only,omitempty" enum:"true,false" doc:"Programs cannot write it, and it stays what it is"`
	Kind     string       `json:"kind,omitempty" enum:"user,agent,skill" doc:"Whom it belongs to on the client's side"`
	ID       string       `json:"id,omitempty" doc:"Its owner there"`
	EntityID string       `json:"entity_id,omitempty" doc:"The same"`
	Version  string       `json:"version,omitempty" doc:"Of a skill only"`
}

type codeMessage struct {
	Message string `json:"message"`
}

// uploadedBody is what became of an upload, with the members of both routes
// and of all generations of clients.
type uploadedBody struct {
	Message          string         `json:"message" enum:"success,partial_success,error"`
	StorageSessionID string         `json:"storage_session_id"`
	SessionID        string         `json:"session_id"`
	Files            []uploadedFile `json:"files"`
	Succeeded        int            `json:"succeeded"`
	Failed           int            `json:"failed"`
}

type uploadedFile struct {
	Status   string `json:"status" enum:"success,error"`
	Filename string `json:"filename"`
	FileID   string `json:"fileId,omitempty"`
	Error    string `json:"error,omitempty"`
}

// form is what an upload brings.
type form struct {
	owner    session.FileOwner
	readOnly bool
	files    []session.Upload
	spools   []*os.File // of files, one each
}

// maxField is the longest value of a form field, in bytes.
const maxField = 4 << 10

// form reads the parts in whatever order they come.
func (c controller) form(w http.ResponseWriter, r *http.Request) (form, error) {
	var f form
	r.Body = http.MaxBytesReader(w, r.Body, 4*c.settings.MaxFile)
	parts, err := r.MultipartReader()
	if err != nil {
		return f, errs.New(errs.Invalid, "The body is not multipart/form-data").Do("Send the file as the part file.").With(err)
	}
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		if err == nil {
			err = c.part(&f, part)
		}
		if err != nil {
			return f, unreadable(err)
		}
	}
}

func (c controller) part(f *form, part *multipart.Part) error {
	defer part.Close()
	// The library's FileName drops folders, which belong to the name here.
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return err
	}
	name, isFile := params["filename"]
	if !isFile {
		value, err := io.ReadAll(io.LimitReader(part, maxField+1))
		if len(value) > maxField {
			return errs.Newf(errs.Invalid, "A field of the form has more than %d bytes.", maxField)
		}
		switch params["name"] {
		case "kind":
			f.owner.Kind = string(value)
		case "id", "entity_id":
			f.owner.ResourceID = string(value)
		case "version":
			f.owner.Version = string(value)
		case "read_only":
			if f.readOnly, err = strconv.ParseBool(string(value)); err != nil {
				return errs.New(errs.Invalid, "read_only must be true or false.")
			}
		}
		return err
	}
	if len(f.files) == c.settings.MaxFiles {
		return errs.Newf(errs.Invalid, "A request may bring %d files at most.", c.settings.MaxFiles)
	}
	body, err := drive.Spool()
	if err != nil {
		return err
	}
	f.spools = append(f.spools, body)
	n, err := io.Copy(body, io.LimitReader(part, c.settings.MaxFile+1))
	f.files = append(f.files, session.Upload{Name: name, Body: body, Size: n})
	if err == nil && n > c.settings.MaxFile {
		_, err = io.Copy(io.Discard, part) // the other files still count
	}
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	return err
}

// close lets go of the files on disk, which have no names.
func (f form) close() {
	for _, spool := range f.spools {
		_ = spool.Close() // nothing of it is kept
	}
}

func unreadable(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errs.Newf(errs.TooLarge, "The upload is larger than %d bytes.", tooLarge.Limit).Do("Send fewer files at once.")
	}
	if e, ok := errors.AsType[*errs.Error](err); ok {
		return e
	}
	return errs.New(errs.Invalid, "The upload cannot be read").With(err)
}

func (c controller) upload(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	body, problems, err := c.store(w, r, who)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		if problem != nil {
			return problem
		}
	}
	return write(w, http.StatusOK, body)
}

func (c controller) uploadBatch(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	body, _, err := c.store(w, r, who)
	if err != nil {
		return err
	}
	if body.Succeeded == 0 {
		return write(w, http.StatusBadRequest, body)
	}
	return write(w, http.StatusOK, body)
}

// store keeps the files of a form and says what became of each.
func (c controller) store(w http.ResponseWriter, r *http.Request, who actor.Actor) (uploadedBody, []error, error) {
	f, err := c.form(w, r)
	defer f.close()
	if err != nil {
		return uploadedBody{}, nil, err
	}
	if len(f.files) == 0 {
		return uploadedBody{}, nil, errs.New(errs.Invalid, "No file was sent").Do("Send each file as a part file.")
	}
	if wrong := f.owner.Check(); wrong != "" {
		return uploadedBody{}, nil, errs.New(errs.Invalid, wrong)
	}
	for i := range f.files {
		f.files[i].ReadOnly = f.readOnly
	}
	stored, files, problems, err := c.sessions.Upload(r.Context(), who, f.owner, f.files)
	if err != nil {
		return uploadedBody{}, nil, err
	}
	body := uploadedBody{Message: "success", StorageSessionID: stored, SessionID: stored}
	for i, sent := range f.files {
		if problems[i] != nil {
			body.Failed++
			body.Files = append(body.Files, uploadedFile{Status: "error", Filename: sent.Name, Error: errs.Message(problems[i])})
			continue
		}
		body.Succeeded++
		body.Files = append(body.Files, uploadedFile{Status: "success", Filename: files[i].Name, FileID: files[i].ID})
	}
	switch {
	case body.Succeeded == 0:
		body.Message = "error"
	case body.Failed > 0:
		body.Message = "partial_success"
	}
	return body, problems, nil
}

func (c controller) object(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	f, err := c.sessions.File(r.Context(), who, r.PathValue("session"), r.PathValue("file"))
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, toObjectBody(f))
}

func (c controller) download(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	f, content, err := c.sessions.Open(r.Context(), who, r.PathValue("session"), r.PathValue("file"))
	if err != nil {
		return err
	}
	h := w.Header()
	httpapi.Download(h, path.Base(f.Name), f.ContentType)
	h.Set("ETag", `"`+f.Digest+`"`)
	defer func() { _ = content.Close() }() // it was only read
	http.ServeContent(w, r, "", f.CreatedAt, content)
	return nil
}

func (c controller) remove(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	if err := c.sessions.Delete(r.Context(), who, r.PathValue("session"), r.PathValue("file")); err != nil {
		return err
	}
	return write(w, http.StatusOK, codeMessage{"File deleted successfully"})
}

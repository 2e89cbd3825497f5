package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/table"
)

type controller struct{ *Service }

// DriveFile is a file as clients read it: docs/wire/refly.md#drive-files.
type DriveFile struct {
	FileID        string    `json:"fileId"`
	CanvasID      string    `json:"canvasId"`
	Name          string    `json:"name"`
	Type          string    `json:"type" doc:"Media type"`
	Category      string    `json:"category" enum:"document,image,video,audio,others"`
	Size          int64     `json:"size" doc:"Bytes"`
	Source        Source    `json:"source" enum:"manual,agent"`
	Scope         string    `json:"scope"`
	StorageKey    string    `json:"storageKey"`
	Summary       string    `json:"summary,omitempty" doc:"What is in it, where that is known"`
	ResultID      string    `json:"resultId,omitempty" doc:"The run that made it"`
	ResultVersion *int      `json:"resultVersion,omitempty"`
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`
	URL           string    `json:"url" doc:"Where its content is"`
	// Table comes with an upload only.
	Table *table.Report `json:"table,omitempty" doc:"How an uploaded CSV file was read"`
}

// Describe writes a file as every route describes it.
func (s *Service) Describe(uid string, f File) DriveFile {
	b := DriveFile{
		FileID: f.FileID, CanvasID: f.CanvasID, Name: f.Name, Type: f.Type, Category: f.Category(), Size: f.Size, Source: f.Source,
		Scope: "present", StorageKey: key(uid, f.CanvasID, f.Name), Summary: f.Summary, ResultID: f.ResultID,
		CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt,
		URL: s.settings.Endpoint + "/v1/drive/file/content/" + f.FileID + "/" + url.PathEscape(f.Name),
	}
	if f.ResultID != "" {
		b.ResultVersion = &f.Version
	}
	return b
}

// driveForm describes what upload reads.
type driveForm struct {
	CanvasID string       `json:"canvasId" minLength:"1" maxLength:"64" doc:"A canvas of yours"`
	File     httpapi.File `json:"file" doc:"One file"`
}

type contentInput struct {
	FileID string `path:"fileId" doc:"The file"`
}

type sharedInput struct {
	Token string `query:"token" required:"true" minLength:"1" doc:"That of the link"`
}

// maxFields is room for the other parts of a form, in bytes.
const maxFields = 64 << 10

func (c controller) upload(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	r.Body = http.MaxBytesReader(w, r.Body, c.settings.MaxFile+maxFields)
	parts, err := r.MultipartReader()
	if err != nil {
		return errs.New(errs.Unsupported, "The body is not multipart/form-data.").Do("Send the parts canvasId and file.").With(err)
	}
	spool, err := Spool()
	if err != nil {
		return err
	}
	defer func() { _ = spool.Close() }() // it has no name any more
	content := Content{Body: spool}
	found := false
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = receive(part, spool, &content, &found)
		}
		if err != nil {
			return unreadable(err)
		}
	}
	switch {
	case !found:
		return errs.New(errs.Invalid, "No file was sent.").Do("Send it as the part file.")
	case content.CanvasID == "":
		return errs.New(errs.Invalid, "canvasId is missing.").Do("Send the id of a canvas of yours as the part canvasId; POST /v1/canvas/create makes one.")
	}
	uploaded, err := c.Upload(r.Context(), who, content)
	if err != nil {
		return err
	}
	body := c.Describe(who.UID, uploaded.File)
	body.Table = uploaded.Table
	return httpapi.Write(w, body)
}

// receive reads one part of an upload.
func receive(part *multipart.Part, spool *os.File, content *Content, found *bool) error {
	defer part.Close()
	name := part.FileName()
	if name == "" {
		value, err := io.ReadAll(io.LimitReader(part, maxFields))
		if part.FormName() == "canvasId" {
			content.CanvasID = string(value)
		}
		return err
	}
	if *found {
		return errs.New(errs.Invalid, "More than one file was sent.").Do("Send one request for each file.")
	}
	*found, content.Name = true, name
	_, err := io.Copy(spool, part)
	return err
}

func unreadable(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return ErrTooLarge.Do("An upload may have " + strconv.FormatInt(tooLarge.Limit, 10) + " bytes.")
	}
	if e, ok := errors.AsType[*errs.Error](err); ok {
		return e
	}
	return errs.New(errs.Invalid, "The upload cannot be read.").With(err)
}

type driveListInput struct {
	httpapi.PageQuery

	CanvasID string `query:"canvasId" maxLength:"64" doc:"The canvas; all of yours when left out"`
}

func (c controller) list(ctx context.Context, who actor.Actor, in *driveListInput) (httpapi.Page[DriveFile], error) {
	page, err := c.List(ctx, who, in.CanvasID, in.PageQuery)
	return httpapi.MapPage(page, func(f File) DriveFile { return c.Describe(who.UID, f) }), err
}

type driveRemoveInput struct {
	Body struct {
		FileID string `json:"fileId" minLength:"1" maxLength:"64" doc:"The file"`
	}
}

func (c controller) remove(ctx context.Context, who actor.Actor, in *driveRemoveInput) (*httpapi.None, error) {
	return &httpapi.None{}, c.Delete(ctx, who, in.Body.FileID)
}

func (c controller) content(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	f, content, err := c.Open(r.Context(), who, r.PathValue("fileId"))
	if err != nil {
		return err
	}
	send(w, r, f, content)
	return nil
}

func (c controller) shared(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	f, content, err := c.Follow(r.Context(), r.URL.Query().Get("token"))
	if err != nil {
		return err
	}
	send(w, r, f, content)
	return nil
}

// send answers with a file, or the part of it that is asked for.
func send(w http.ResponseWriter, r *http.Request, f File, content io.ReadSeekCloser) {
	defer func() { _ = content.Close() }() // it was only read
	h := w.Header()
	httpapi.Download(h, f.Name, f.Type)
	h.Set("ETag", fmt.Sprintf(`"%s-%d"`, f.FileID, f.UpdatedAt.UnixMicro()))
	h.Set("Cache-Control", "private, no-cache")
	http.ServeContent(w, r, "", f.UpdatedAt, content)
}

type presignInput struct {
	Body struct {
		FileID    string `json:"fileId" minLength:"1" maxLength:"64" doc:"The file"`
		ExpiresIn int    `json:"expiresIn,omitempty" minimum:"1" maximum:"604800" doc:"Seconds; the server's usual time when left out"`
	}
}

type presignedBody struct {
	URL       string    `json:"url" doc:"Answers with the file, to anybody"`
	ExpiresAt time.Time `json:"expiresAt"`
}

func (c controller) presign(ctx context.Context, who actor.Actor, in *presignInput) (presignedBody, error) {
	l, err := c.Link(ctx, who, in.Body.FileID, time.Duration(in.Body.ExpiresIn)*time.Second)
	return presignedBody(l), err
}

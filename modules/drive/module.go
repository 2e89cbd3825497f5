package drive

import (
	"context"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/discard"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/internal/signing"
)

// Canvases says whose a canvas is, and takes it away.
type Canvases interface {
	CanvasOwned(ctx context.Context, h database.Handle, uid, canvasID string) (bool, error)
	// CanvasIdle fails while a run of the canvas has not ended.
	CanvasIdle(ctx context.Context, a actor.Actor, canvasID string) error
	DeleteCanvas(ctx context.Context, a actor.Actor, canvasID string) error
}

// Tables reads the first rows of a Parquet file for a user.
type Tables interface {
	Head(ctx context.Context, a actor.Actor, parquet []byte, rows int) (Table, error)
}

// Settings are the limits of files.
type Settings struct {
	// MaxFile is the largest file, Quota how much room all that is stored for
	// one user may take, both in bytes.
	MaxFile, Quota int64
	// Endpoint is where callers reach the API; it begins the URLs of files.
	Endpoint string
	// LinkLife is how long a link to a file is valid.
	LinkLife time.Duration
}

// Deps is what the module needs.
type Deps struct {
	DB       *database.DB
	Objects  objectstore.Store
	Canvases Canvases
	// Tables reads tables for previews.
	Tables Tables
	// Elsewhere is how many bytes of the quota the user's files take that are
	// not of this module; nil for none.
	Elsewhere func(h database.Handle, uid string) (int64, error)
	Settings  Settings
	// Keys are those that the keys of links are made of.
	Keys signing.Keys
	Now  func() time.Time
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) (*Module, error) {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	// The server's key encrypts; links get one of their own.
	keys, err := d.Keys.For("portico drive links")
	if err != nil {
		return nil, err
	}
	return &Module{Service: &Service{
		db: d.DB, objects: d.Objects, gone: discard.New(d.DB, d.Objects), canvases: d.Canvases, tables: d.Tables, elsewhere: d.Elsewhere, settings: d.Settings, now: d.Now, linkKeys: keys,
	}}, nil
}

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	c := controller{m.Service}
	content := httpapi.Description{Input: contentInput{}, Media: httpapi.AnyFile(), Statuses: httpapi.PartStatuses()}
	api.Raw(httpapi.Operation{
		ID: "upload-drive-file", Method: http.MethodPost, Path: "/v1/drive/file/upload", Tag: "drive",
		Summary: "Store a file in a canvas",
		Description: "multipart/form-data with the parts canvasId and file. A CSV file is kept as Parquet: the types of its columns are found out, and " +
			"rows that do not fit are left out and reported in table.",
		Raw: httpapi.Description{Form: driveForm{}, Answers: []any{httpapi.Envelope[DriveFile]{}}}, BodyLimit: m.Service.settings.MaxFile + maxFields,
		Errors: []errs.Code{errs.CanvasMissing, errs.StorageFull},
	}, c.upload)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-drive-files", Method: http.MethodGet, Path: "/v1/drive/file/list", Tag: "drive", Summary: "List your files, newest first",
	}, c.list)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-drive-file", Method: http.MethodPost, Path: "/v1/drive/file/delete", Tag: "drive", Summary: "Delete a file for good",
		Errors: []errs.Code{errs.FileMissing},
	}, c.remove)
	httpapi.Register(api, httpapi.Operation{
		ID: "preview-drive-file", Method: http.MethodGet, Path: "/v1/drive/file/preview/{fileId}", Tag: "drive", Summary: "What is at the beginning of a file",
		Description: "The first 100 rows of a table (CSV or Parquet), or the first 64 KiB of a text, as data: nothing in it is for a browser to render.",
		Errors:      []errs.Code{errs.FileMissing, errs.TooLarge},
	}, c.preview)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-canvas", Method: http.MethodDelete, Path: "/v1/canvas/{canvasId}", Tag: "canvas", Summary: "Delete a canvas of yours, with its files",
		Description: "Its runs stay. One that has files is deleted with force=true only, and one whose runs have not ended is not.",
		Errors:      []errs.Code{errs.CanvasMissing, errs.Conflict},
	}, c.removeCanvas)
	api.Raw(httpapi.Operation{
		ID: "download-drive-file", Method: http.MethodGet, Path: "/v1/drive/file/content/{fileId}", Tag: "drive", Summary: "A file's content",
		Raw: content, Errors: []errs.Code{errs.FileMissing},
	}, c.content)
	api.Raw(httpapi.Operation{
		ID: "download-drive-file-by-name", Method: http.MethodGet, Path: "/v1/drive/file/content/{fileId}/{name}", Tag: "drive",
		Summary: "A file's content; the name is for people", Raw: content, Errors: []errs.Code{errs.FileMissing},
	}, c.content)
	httpapi.Register(api, httpapi.Operation{
		ID: "presign-drive-file", Method: http.MethodPost, Path: "/v1/drive/file/presign", Tag: "drive", Summary: "Make a link to a file that needs no credential",
		Errors: []errs.Code{errs.FileMissing},
	}, c.presign)
	api.Raw(httpapi.Operation{
		ID: "download-shared-drive-file", Method: http.MethodGet, Path: "/v1/drive/file/shared", Tag: "drive", Access: httpapi.Public,
		Summary: "The content of a file by a link", Raw: httpapi.Description{Input: sharedInput{}, Media: content.Media, Statuses: content.Statuses}, Errors: []errs.Code{errs.FileMissing, errs.Unauthorized},
	}, c.shared)
}

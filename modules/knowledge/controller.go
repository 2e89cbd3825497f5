package knowledge

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/knowledge/read"
)

// Files are those of canvases.
type Files interface {
	Open(ctx context.Context, a actor.Actor, fileID string) (drive.File, io.ReadSeekCloser, error)
}

type controller struct{ *Service }

// maxFields is room for what goes with a document, in bytes.
const maxFields = 64 << 10

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	c := controller{m.Service}
	adding := []errs.Code{errs.StorageFull, errs.Unavailable, errs.FileMissing, errs.Unsupported}
	httpapi.Register(api, httpapi.Operation{
		ID: "list-knowledge-collections", Method: http.MethodGet, Path: "/v1/knowledge/collections", Tag: "knowledge",
		Summary: "List the collections that you search, with what they hold", Description: "Yours, and those that the operator shares.",
	}, c.collections)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-knowledge-collection", Method: http.MethodDelete, Path: "/v1/knowledge/collections/{name}", Tag: "knowledge",
		Summary: "Delete a collection of yours with all that is in it", Errors: []errs.Code{errs.NotFound},
	}, c.clear)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-knowledge-documents", Method: http.MethodGet, Path: "/v1/knowledge/documents", Tag: "knowledge",
		Summary: "List your documents, newest first", Errors: []errs.Code{errs.NotFound},
	}, c.documents)
	httpapi.Register(api, httpapi.Operation{
		ID: "add-knowledge-document", Method: http.MethodPost, Path: "/v1/knowledge/documents", Tag: "knowledge",
		Summary:     "Add a text to a collection of yours",
		Description: "A document of the same source is replaced. One that is as it was is not read again. Long texts are uploaded.",
		Errors:      adding,
	}, c.add)
	httpapi.Register(api, httpapi.Operation{
		ID: "add-knowledge-file", Method: http.MethodPost, Path: "/v1/knowledge/documents/file", Tag: "knowledge",
		Summary: "Add a file of a canvas to a collection of yours", Errors: adding,
	}, c.addFile)
	api.Raw(httpapi.Operation{
		ID: "upload-knowledge-document", Method: http.MethodPost, Path: "/v1/knowledge/documents/upload", Tag: "knowledge",
		Summary:     "Upload a document to a collection of yours",
		Description: "multipart/form-data with the part file, which comes last. HTML, Markdown, text, PDF and Word (.docx) are read.",
		Raw:         httpapi.Description{Form: knowledgeForm{}, Answers: []any{httpapi.Envelope[knowledgeAdded]{}}}, BodyLimit: m.Service.deps.Settings.MaxDocument + maxFields,
		Errors: adding,
	}, c.upload)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-knowledge-document", Method: http.MethodDelete, Path: "/v1/knowledge/documents", Tag: "knowledge",
		Summary: "Delete a document of yours", Errors: []errs.Code{errs.NotFound},
	}, c.remove)
}

type knowledgeCollection struct {
	Name      string    `json:"name"`
	Shared    bool      `json:"shared" doc:"It is the operator's"`
	Documents int64     `json:"documents"`
	Passages  int64     `json:"passages"`
	Vectors   int64     `json:"vectors" doc:"Passages with a vector of the server's model"`
	Bytes     int64     `json:"bytes" doc:"Of the passages' text"`
	UpdatedAt time.Time `json:"updatedAt"`
}

type knowledgeCollections struct {
	Items []knowledgeCollection `json:"items" nullable:"false"`
}

func (c controller) collections(ctx context.Context, who actor.Actor, _ *struct{}) (knowledgeCollections, error) {
	list, err := c.Visible(ctx, who)
	body := knowledgeCollections{Items: make([]knowledgeCollection, len(list))}
	for i, l := range list {
		body.Items[i] = knowledgeCollection{l.Name, l.Shared, l.Documents, l.Passages, l.Vectors, l.Bytes, l.UpdatedAt}
	}
	return body, err
}

type clearInput struct {
	Name string `path:"name" minLength:"1" maxLength:"64" doc:"The collection"`
}

func (c controller) clear(ctx context.Context, who actor.Actor, in *clearInput) (*httpapi.None, error) {
	return &httpapi.None{}, c.Clear(ctx, Of(who), in.Name)
}

type knowledgeDocument struct {
	Collection string    `json:"collection"`
	Source     string    `json:"source" doc:"What names it in its collection"`
	Title      string    `json:"title"`
	Framework  string    `json:"framework,omitempty"`
	Passages   int       `json:"passages"`
	Bytes      int64     `json:"bytes" doc:"Of the passages' text"`
	Model      string    `json:"model,omitempty" doc:"The model of its vectors, with their dimensions"`
	CreatedAt  time.Time `json:"createdAt"`
	UpdatedAt  time.Time `json:"updatedAt"`
}

func toDocument(d Document) knowledgeDocument {
	return knowledgeDocument{d.Collection, d.Source, d.Title, d.Framework, d.Passages, d.Bytes, d.Model, d.CreatedAt, d.UpdatedAt}
}

type documentsInput struct {
	httpapi.PageQuery

	Collection string `query:"collection" maxLength:"64" doc:"The collection; all of yours when left out"`
}

func (c controller) documents(ctx context.Context, who actor.Actor, in *documentsInput) (httpapi.Page[knowledgeDocument], error) {
	page, err := c.Documents(ctx, Of(who), in.Collection, in.PageQuery)
	return httpapi.MapPage(page, toDocument), err
}

type knowledgeAddInput struct {
	Body struct {
		Collection string `json:"collection,omitempty" maxLength:"64" doc:"Where it goes; documents when left out"`
		Source     string `json:"source" minLength:"1" maxLength:"2048" doc:"What names it: the same name replaces it"`
		Title      string `json:"title,omitempty" maxLength:"500" doc:"Its name for people; the document's own when left out"`
		Framework  string `json:"framework,omitempty" maxLength:"500" doc:"What a page of programming documentation is about"`
		Text       string `json:"text" minLength:"1" doc:"Markdown, or of another type that mediaType names"`
		MediaType  string `json:"mediaType,omitempty" maxLength:"255" doc:"text/markdown when left out"`
	}
}

type knowledgeFileInput struct {
	Body struct {
		Collection string `json:"collection,omitempty" maxLength:"64" doc:"Where it goes; documents when left out"`
		Source     string `json:"source,omitempty" maxLength:"2048" doc:"What names it; the name of the file when left out"`
		Title      string `json:"title,omitempty" maxLength:"500" doc:"Its name for people; the document's own when left out"`
		Framework  string `json:"framework,omitempty" maxLength:"500" doc:"What a page of programming documentation is about"`
		FileID     string `json:"fileId" minLength:"1" maxLength:"64" doc:"A file of a canvas of yours"`
	}
}

type knowledgeAdded struct {
	Document  knowledgeDocument `json:"document"`
	Unchanged bool              `json:"unchanged" doc:"It was as it is, and nothing was done"`
}

func (c controller) add(ctx context.Context, who actor.Actor, in *knowledgeAddInput) (knowledgeAdded, error) {
	b := in.Body
	return c.added(ctx, who, Addition{
		Collection: b.Collection, Framework: b.Framework, Title: b.Title,
		Source: read.Source{
			Name: b.Source, MIME: cmp.Or(b.MediaType, "text/markdown"), Size: int64(len(b.Text)),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(b.Text)), nil },
		},
	})
}

func (c controller) added(ctx context.Context, who actor.Actor, a Addition) (knowledgeAdded, error) {
	added, err := c.Add(ctx, Of(who), a)
	return knowledgeAdded{toDocument(added.Document), added.Unchanged}, err
}

func (c controller) addFile(ctx context.Context, who actor.Actor, in *knowledgeFileInput) (knowledgeAdded, error) {
	b := in.Body
	f, content, err := c.deps.Files.Open(ctx, who, b.FileID)
	if err != nil {
		return knowledgeAdded{}, err
	}
	defer func() { _ = content.Close() }() // it was only read
	return c.added(ctx, who, Addition{
		Collection: b.Collection, Framework: b.Framework, Title: b.Title,
		Source: read.Source{Name: cmp.Or(b.Source, f.Name), MIME: f.Type, Size: f.Size, Open: again(content)},
	})
}

// again opens a file from its beginning, each time.
func again(f io.ReadSeeker) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		_, err := f.Seek(0, io.SeekStart)
		return io.NopCloser(f), err
	}
}

// knowledgeForm describes what upload reads.
type knowledgeForm struct {
	Collection string       `json:"collection,omitempty" maxLength:"64" doc:"Where it goes; documents when left out"`
	Source     string       `json:"source,omitempty" maxLength:"2048" doc:"What names it; the name of the file when left out"`
	Title      string       `json:"title,omitempty" maxLength:"500"`
	Framework  string       `json:"framework,omitempty" maxLength:"500"`
	File       httpapi.File `json:"file" doc:"One file"`
}

func (c controller) upload(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	r.Body = http.MaxBytesReader(w, r.Body, c.deps.Settings.MaxDocument+maxFields)
	parts, err := r.MultipartReader()
	if err != nil {
		return errs.New(errs.Unsupported, "The body is not multipart/form-data.").Do("Send the part file.").With(err)
	}
	spool, err := drive.Spool()
	if err != nil {
		return err
	}
	defer func() { _ = spool.Close() }() // it has no name any more
	form := received{fields: map[string]string{}}
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = form.take(part, spool)
		}
		if err != nil {
			return c.unreadable(err)
		}
	}
	if form.name == "" {
		return errs.New(errs.Invalid, "No file was sent.").Do("Send it as the part file.")
	}
	added, err := c.added(r.Context(), who, Addition{
		Collection: form.fields["collection"], Framework: form.fields["framework"], Title: form.fields["title"],
		Source: read.Source{Name: cmp.Or(form.fields["source"], form.name), MIME: form.kind, Size: form.size, Open: again(spool)},
	})
	if err != nil {
		return err
	}
	return httpapi.Write(w, added)
}

// fieldLimits are how many characters the parts beside the file have at most, as
// knowledgeForm says.
func fieldLimits() map[string]int {
	return map[string]int{"collection": 64, "source": 2048, "title": 500, "framework": 500}
}

// received is what came of an upload.
type received struct {
	fields     map[string]string
	name, kind string
	size       int64
}

func (f *received) take(part *multipart.Part, spool *os.File) (err error) {
	defer func() { _ = part.Close() }() // it was only read
	if part.FileName() == "" {
		most := cmp.Or(fieldLimits()[part.FormName()], maxFields)
		value, err := io.ReadAll(io.LimitReader(part, maxFields+1))
		if utf8.RuneCount(value) > most {
			return errs.Newf(errs.Invalid, "%s is too long: it has at most %d characters.", part.FormName(), most)
		}
		f.fields[part.FormName()] = string(value)
		return err
	}
	if f.name != "" {
		return errs.New(errs.Invalid, "More than one file was sent.").Do("Send one request for each file.")
	}
	f.name, f.kind = part.FileName(), part.Header.Get("Content-Type")
	f.size, err = io.Copy(spool, part)
	return err
}

func (c controller) unreadable(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return c.tooLarge()
	}
	if e, ok := errors.AsType[*errs.Error](err); ok {
		return e
	}
	return errs.New(errs.Invalid, "The upload cannot be read.").With(err)
}

type removeInput struct {
	Collection string `query:"collection" maxLength:"64" doc:"The collection; documents when left out"`
	Source     string `query:"source" required:"true" minLength:"1" maxLength:"2048" doc:"What names the document"`
}

func (c controller) remove(ctx context.Context, who actor.Actor, in *removeInput) (*httpapi.None, error) {
	return &httpapi.None{}, c.Remove(ctx, Of(who), in.Collection, in.Source)
}

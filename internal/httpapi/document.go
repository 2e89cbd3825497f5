package httpapi

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"

	"github.com/portico-run/portico/internal/httpapi/decode"
	"github.com/portico-run/portico/internal/httpapi/example"
)

// Description says what a Raw operation reads and writes, for the document. A
// value stands for its type; one that is not empty is the example, too.
type Description struct {
	// Input is a struct with the tags that inputs of Register have, for the
	// parameters. Those of the path that it leaves out are texts.
	Input any
	// Body is the JSON of a request, Form its multipart/form-data, and Encoded its
	// application/x-www-form-urlencoded.
	Body, Form, Encoded any
	// Answers are the JSON of an answer: one of these types.
	Answers []any
	// Media are the content types of answers that are not JSON, with an example
	// of each: of events, the data of one.
	Media map[string]string
	// Events are the data of the events of a stream.
	Events []any
	// Statuses are further answers that are no errors, with what they mean.
	// They have the content of the others, unless they can have none.
	Statuses map[int]string
}

const exampleFile = "city,population\nRome,2748000\n"

// AnyFile is the Media of a file that a user brought.
func AnyFile() map[string]string { return map[string]string{"*/*": exampleFile} }

// File is a file in a Form.
type File string

// Schema implements huma.SchemaProvider.
func (File) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "binary", Examples: []any{exampleFile}}
}

const (
	jsonMedia    = "application/json"
	formMedia    = "multipart/form-data"
	encodedMedia = "application/x-www-form-urlencoded"
	eventMedia   = "text/event-stream"
)

func (a *API) config() huma.Config {
	c := huma.DefaultConfig("Portico", a.deps.Version)
	c.CreateHooks = nil // no $schema member in answers
	c.Formats = map[string]huma.Format{jsonMedia: {Marshal: marshal, Unmarshal: decode.JSON}}
	// The library's page loads its scripts from elsewhere, and its document is
	// made without a lock.
	c.DocsPath, c.OpenAPIPath, c.SchemasPath = "", "", ""
	c.Info.Description = "Runs model-written code in a sandbox and executes the tools it calls: recorded, billed once, streamed live. " +
		"HEAD works wherever GET does. Every answer has the header " + HeaderTrace + "."
	if a.deps.Endpoint != "" {
		c.Servers = []*huma.Server{{URL: a.deps.Endpoint}}
	}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"apiKey": {Type: "apiKey", In: "header", Name: "X-API-Key", Description: "An API key, rf_…"},
		"bearer": {Type: "http", Scheme: "bearer", Description: "An API key, or a session token; for the code interpreter also the token that a LibreChat server signed"},
		"session": {Type: "apiKey", In: "cookie", Name: AccessCookie, Description: "A session token, for pages whose EventSource cannot send headers. " +
			"It counts where no other credential is sent; requests that change something have to come from a page of this server or of an allowed origin"},
	}
	return c
}

// OpenAPI is the document of every operation, as JSON.
func (a *API) OpenAPI() ([]byte, error) { return a.document().MarshalJSON() }

// document has every operation. Most processes are never asked for it, and making the
// schemas of all operations takes longer than all else when one starts.
func (a *API) document() *huma.OpenAPI {
	a.complete()
	return a.huma.OpenAPI()
}

// serveDocument adds the routes of the document, which is made when it is
// first asked for.
func (a *API) serveDocument() {
	for path, render := range map[string]func(doc *huma.OpenAPI) ([]byte, error){
		"/openapi.json": (*huma.OpenAPI).MarshalJSON, "/openapi-3.0.json": (*huma.OpenAPI).Downgrade,
		"/openapi.yaml": (*huma.OpenAPI).YAML, "/openapi-3.0.yaml": (*huma.OpenAPI).DowngradeYAML,
	} {
		text := sync.OnceValues(func() ([]byte, error) { return render(a.document()) })
		handle(a.engine, http.MethodGet, path, func(c *gin.Context) {
			b, err := text()
			if err != nil {
				a.fail(c, fmt.Errorf("the API's document: %w", err))
				return
			}
			c.Data(http.StatusOK, "application/openapi+"+path[len(path)-4:], b)
		})
	}
}

func (a *API) describe(op Operation) huma.Operation {
	h := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description,
		Tags: []string{op.Tag}, DefaultStatus: http.StatusOK, MaxBodyBytes: a.limit(op), BodyReadTimeout: a.bodyTime,
	}
	for status := range failures(op) {
		h.Errors = append(h.Errors, status)
	}
	switch {
	case op.Access == Public:
		return h
	case op.Trusted && a.deps.Trusted != nil:
		h.Security = []map[string][]string{{}}
	}
	h.Security = append(h.Security, map[string][]string{"apiKey": {}}, map[string][]string{"bearer": {}}, map[string][]string{"session": {}})
	return h
}

func (a *API) example(s *huma.Schema) any {
	return example.Of(a.huma.OpenAPI().Components.Schemas, s)
}

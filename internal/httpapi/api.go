// Package httpapi is the HTTP floor: the only place that knows the web
// framework. Modules register operations as plain functions; this package
// decodes, authenticates, maps errors and writes the envelope.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/telemetry/trace"
)

// Access says who may call an operation.
type Access int

const (
	// User is a credential with the full scope of its user; the default.
	User Access = iota
	// Tools is any credential that may execute tools, a sandbox's temporary
	// key included.
	Tools
	// Code is any credential that may run code, a host's signed token included.
	Code
	// Public needs no credential.
	Public
	// Admin is a credential with the full scope of a user who is an administrator.
	Admin
	// Apps is any credential with the full scope of its user, or an app's access token.
	Apps
)

// Operation describes one route for the router and the OpenAPI document.
type Operation struct {
	ID          string // unique, lower-case words with dashes
	Method      string
	Path        string // parameters as {name}
	Summary     string
	Description string
	Tag         string
	Access      Access
	// Errors are the codes it answers with beyond those every operation has.
	Errors []errs.Code
	// BodyLimit is the largest body in bytes; zero means the server's limit.
	BodyLimit int64
	// Example is an answer's data, or the whole answer of an operation without
	// the envelope, for the document; nil makes one of the schema.
	Example any
	// Never is, for the document, the JSON Schema of bodies that are refused
	// although each member is valid by itself.
	Never any
	// Raw describes what an operation that is registered with API.Raw reads and
	// writes; the others' types say it.
	Raw Description
	// Aliases are further paths of a Raw operation, with the same parameters.
	Aliases []string
	// Refusal is the body of an error of a Raw operation whose callers expect
	// another form than the envelope.
	Refusal func(e *errs.Error, traceID string) any
	Trusted bool // lets callers without any credential in, as Deps.Trusted
	// Runs says that the operation runs a program or an agent, for keys that may
	// do that and not everything.
	Runs bool
	// Begins says which of its requests begin programs, which another process may do
	// where the queue of this one is full; nil for none.
	Begins Begins
	// Reads says that the operation changes nothing, whatever its method.
	Reads bool
	// Tickets says that a ticket for a run, in the parameter ticket, is taken.
	Tickets bool
	// Lasts says that the answer of a Raw operation may take for ever: it ends a
	// few seconds after the credential of the request does.
	Lasts bool
	// Challenge is the header WWW-Authenticate of answers to callers without a valid
	// credential; empty for none.
	Challenge string
	// TraceHeader is a further header of its answers that names the request; empty for
	// none.
	TraceHeader string
	// SignsIn says that the operation lets a browser in or out without a
	// credential before: pages of other origins are refused.
	SignsIn bool
}

// None is the data of an operation that has none.
type None struct{}

// Schema implements huma.SchemaProvider: some operations write an empty object,
// and some null.
func (None) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Nullable: true, AdditionalProperties: false}
}

// Credentials is what a request presented. At most one field is set.
type Credentials struct {
	APIKey string // from X-API-Key, Basic, ApiKey, or a bearer token that starts with rf_
	Token  string // a session token, or a host's signed one
	Ticket string // for the events of one run
}

// Authenticator turns credentials into an actor. It answers with an
// Unauthorized error for any credential that is not valid.
type Authenticator interface {
	Authenticate(ctx context.Context, c Credentials) (actor.Actor, error)
}

// Peers hand requests on to the process that holds what they are about.
type Peers interface {
	// Forward writes what another process answers, whose body was read already. An
	// error says that nothing was written; peer.ErrGone that the process is gone.
	Forward(w http.ResponseWriter, r *http.Request, body []byte, to string) error
}

// Deps is what the HTTP floor needs.
type Deps struct {
	Auth      Authenticator
	Logger    *slog.Logger
	Origins   []string // browsers' origins that may call with credentials
	BodyLimit int64    // largest request body in bytes
	Version   string
	Endpoint  string // where clients reach the server, for the document
	// Trusted is who callers without a credential are where an operation says
	// so; nil refuses them.
	Trusted func(ctx context.Context) (actor.Actor, error)
	// Still returns an error when the credential that an actor came with counts no
	// more; nil is for credentials that never end.
	Still func(ctx context.Context, who actor.Actor) error
	// Asked keeps what an administrator asks of a route for administrators, before
	// it is answered; an error refuses the request. Nil keeps nothing.
	Asked func(ctx context.Context, who actor.Actor, q Question) error
	// Peers are the other processes, which answer what they hold; nil where there
	// are none.
	Peers Peers
	// Spill returns a process that begins a program in the place of this one, whose
	// queue is full; empty where it is not, or there is none. Nil for nobody.
	Spill func(ctx context.Context, pauses bool) string
	// Observe is told every answered request with its route's pattern; it may
	// be nil.
	Observe func(method, route string, status int, took time.Duration)
	// Tracer begins a trace with each request; nil begins none.
	Tracer *trace.Tracer
}

// API is the HTTP surface. Register operations before serving.
type API struct {
	bodyTime time.Duration // for reading a body
	lookTime time.Duration // between two looks at a credential
	guard    *http.CrossOriginProtection
	deps     Deps
	engine   *gin.Engine
	huma     huma.API             // has the document
	complete func()               // adds every operation to it
	routes   map[string]Operation // "METHOD /path/:name" → what is served there
	folders  []below
	// descriptions add one operation each.
	descriptions []func()
}

var installGlobals sync.Once //nolint:gochecknoglobals // guards the libraries' own globals

// New returns an API without operations.
func New(d Deps) *API {
	// The libraries keep their mode and error constructors in globals; ours are
	// the same for every API, so they are put in place once.
	installGlobals.Do(func() {
		gin.SetMode(gin.ReleaseMode) //nolint:forbidigo // its only switch for the list of routes on standard output
		huma.NewErrorWithContext = newHumaError
		huma.NewError = func(status int, msg string, details ...error) huma.StatusError {
			return newHumaError(nil, status, msg, details...)
		}
	})
	a := &API{
		deps: d, engine: gin.New(), routes: map[string]Operation{}, bodyTime: bodyReadTimeout, lookTime: lookEvery, guard: guardOf(d.Origins),
	}
	// Nobody in front is trusted to name the client: a forwarded header would
	// let anybody choose the address in the log.
	_ = a.engine.SetTrustedProxies(nil) // fails only for a malformed list
	a.engine.HandleMethodNotAllowed = true
	a.engine.RedirectTrailingSlash = false
	a.engine.NoRoute(func(c *gin.Context) {
		a.fail(c, errs.New(errs.NotFound, "There is no such route.").Do("See /openapi.json for the routes there are."))
	})
	a.engine.NoMethod(func(c *gin.Context) {
		c.Header("Allow", a.allowed(c.Request.URL.Path))
		a.fail(c, errs.New(errs.MethodUnknown, "This route does not take this method.").Do("See /openapi.json for its methods."))
	})
	if d.Tracer != nil {
		a.engine.Use(a.trace)
	}
	a.engine.Use(identify, a.logRequest, a.recoverPanic, a.cors, a.authenticate, a.readBody)
	if d.Spill != nil {
		a.engine.Use(a.spill)
	}
	a.huma = huma.NewAPI(a.config(), &served{})
	a.complete = sync.OnceFunc(func() {
		for _, describe := range a.descriptions {
			describe()
		}
	})
	a.serveDocument()
	return a
}

// handle adds a route. What answers GET answers HEAD with the same headers:
// the server of the standard library drops the body.
func handle(engine *gin.Engine, method, path string, fn gin.HandlerFunc) {
	engine.Handle(method, ginPath(path), fn)
	if method == http.MethodGet {
		engine.Handle(http.MethodHead, ginPath(path), fn)
	}
}

// ServeHTTP answers a request. Slashes that follow each other count as one:
// clients join a base that ends with one and a path that begins with one.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, "//") {
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = slashes.ReplaceAllString(r.URL.Path, "/"), ""
	}
	a.engine.ServeHTTP(w, r)
}

var slashes = regexp.MustCompile(`/{2,}`)

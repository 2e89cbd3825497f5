package program

import (
	"net/http"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/telemetry/trace"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/program/flat"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/tool"
)

// identity is who a program is to the tools it calls.
type identity struct {
	key   account.Plaintext
	call  record.Call
	trace string // the id of the request that the program belongs to
	span  trace.Span
}

// environment is what the SDK reads: docs/wire/refly.md#environment-of-programs.
// What is empty is left out.
func (i identity) environment(debug bool) map[string]string {
	env := map[string]string{
		"REFLY_TOOL_SERVICE_API_URL":  sandbox.LoopbackURL,
		"PORTICO_TOOL_SOCKET":         "unix://" + sandbox.ToolSocket,
		"REFLY_TOOL_SERVICE_API_KEY":  i.key.Reveal(),
		"REFLY_PTC_DEBUG":             "false",
		"REFLY_CANVAS_ID":             i.call.CanvasID,
		"REFLY_RESULT_ID":             i.call.ResultID,
		"REFLY_RESULT_VERSION":        version(i.call.Version),
		"REFLY_PTC_CALL_ID":           i.call.CallID,
		"REFLY_EXECUTOR_SLIM_INVOKER": "refly-api",
		"PORTICO_TRACE_ID":            i.trace,
	}
	if debug {
		env["REFLY_PTC_DEBUG"] = "true"
	}
	for name, value := range env {
		if value == "" {
			delete(env, name)
		}
	}
	return env
}

// closed answers a program without tools.
type closed struct{}

// ServeHTTP implements http.Handler.
func (closed) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	httpapi.Fail(w, errs.New(errs.Forbidden, "This program has no tools.").Do("Call them outside of it."))
}

// gateway is the only thing a program reaches: the execution of tools and the
// outputs of its run, as the identity it was given, whatever its requests
// claim.
type gateway struct {
	id        identity
	api       http.Handler
	catalogue *catalogue.Catalogue
	waits     *waits
}

// reaches reports whether a request is one that programs may make. The API says
// which methods its routes for functions take.
func (g gateway) reaches(r *http.Request) bool {
	switch r.URL.Path {
	case tool.ExecutePath:
		return r.Method == http.MethodPost
	case record.OutputPath:
		return r.Method == http.MethodGet
	}
	return r.URL.Path == flat.CallPath || r.URL.Path == flat.QueryPath
}

// ServeHTTP implements http.Handler.
func (g gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && (r.URL.Path == searchPath || r.URL.Path == helpPath) {
		g.lookUp(w, r)
		return
	}
	if !g.reaches(r) {
		httpapi.Fail(w, errs.New(errs.NotFound, "A program reaches POST "+tool.ExecutePath+", "+flat.CallPath+" and "+flat.QueryPath+", and GET "+record.OutputPath+" only.").
			Do("Call tools through refly_tools."))
		return
	}
	r = r.Clone(g.id.span.Under(tool.Pausing(tool.Inside(r.Context()), g.waits.pause)))
	kept := http.Header{}
	for name, values := range r.Header {
		switch name {
		case "Content-Type", "Content-Encoding", "Accept", "User-Agent", "Idempotency-Key", "X-Ptc-Line":
			kept[name] = values
		}
	}
	kept.Set("X-API-Key", g.id.key.Reveal())
	kept.Set(httpapi.HeaderTrace, g.id.trace)
	kept.Set("x-ptc-call-id", g.id.call.CallID)
	kept.Set("x-refly-result-id", g.id.call.ResultID)
	for name, value := range map[string]string{"x-refly-result-version": version(g.id.call.Version), "x-refly-canvas-id": g.id.call.CanvasID} {
		if value != "" {
			kept.Set(name, value)
		}
	}
	r.Header = kept
	g.api.ServeHTTP(w, r)
}

package toolset

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/schema/shared"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Kind says what executes a toolset's methods. The packages that execute them
// name the kinds: docs/wire/refly.md#kinds-of-toolsets.
type Kind string

// The kinds whose tools are not executed here: builtin tools are the agent's
// own.
const (
	Builtin Kind = "builtin"
	MCP     Kind = "mcp"
)

// TypeRegular is the type of toolsets that need no account of their users at
// another service.
const TypeRegular = "regular"

// TypeOAuth is the type of toolsets whose users authorize this server at the API
// itself: their credential is an AuthorizationCode.
const TypeOAuth = "oauth"

// The types of Patterns. Those of regular toolsets are also what
// toolsets.auth_type says of them.
const (
	AuthConfigBased = "config_based"
	AuthCredentials = "credentials"
	AuthOAuth       = "oauth"
)

// Toolset is what a key means to one caller.
type Toolset struct {
	Key       string
	Name      string
	ToolsetID string // empty for builtin toolsets and MCP servers
	Global    bool   // shared by all users; only these are billed
	Kind      Kind
	// Unsupported is why calls of its tools are refused; empty where they are
	// not.
	Unsupported string
	// Methods are its tools; nil where Source.Method asks another service.
	Methods []Method
	// Domain is the base of relative endpoints.
	Domain string
	// Account is the account that calls are made with at the service that has
	// the tools, and AccountUser who has it there; empty where there is none.
	Account, AccountUser string
	// Egress lists what the toolset may reach beyond the public internet.
	Egress []netip.Prefix
	// Approval is when calls of its tools wait for a person, as its file says:
	// "never", "first" or "always"; empty where it says nothing.
	Approval string
	Prices   price.List
	// Config is what the toolset is configured with, by the keys of its items.
	Config map[string]string
	// Credential is what calls carry.
	Credential Sealed
	// Found is what the kind's own code holds for the steps that follow.
	Found any
}

// Find is Source.Method for a toolset that has its Methods.
func (t Toolset) Find(name string) (Method, Credential, error) {
	i := slices.IndexFunc(t.Methods, func(m Method) bool { return m.Name == name })
	if i < 0 {
		names := make([]string, len(t.Methods))
		for i, m := range t.Methods {
			names[i] = m.Name
		}
		return Method{}, Credential{}, NoMethod(t.Key, name, strings.Join(names, ", "))
	}
	c, err := t.Credential.Open()
	return t.Methods[i], c, err
}

// Method is one tool of a toolset: how to call it over HTTP.
type Method struct {
	Name        string
	Version     int
	Description string
	// Endpoint is a URL, or a path below the toolset's domain. {name} in it
	// stands for an argument.
	Endpoint   string
	HTTPMethod string
	Request    json.RawMessage // JSON Schema of the arguments
	Response   json.RawMessage // JSON Schema of the result
	// Shared has the schemas that Request and Response refer to; nil where both
	// are whole. Whoever reads more of them than the names of arguments calls
	// Whole or Callable.
	Shared  *shared.Set
	Adapter Adapter
	// Rules and TokenPricing are the formula of its price; empty for none.
	Rules, TokenPricing json.RawMessage
	// Priced is what the prices of its toolset call it; empty for the name that it is
	// called by.
	Priced string
	// AllowedCallers is "direct", "code" or both with a comma; empty leaves it
	// to the name.
	AllowedCallers string
	// Approval is Toolset.Approval for this method.
	Approval string
	// Effect is EffectRead or EffectWrite, where somebody said so.
	Effect string
	// Revision is the version of a tool at the provider that lists it.
	Revision string
	// Verbatim says that the executor returns results as they came. Others are
	// decoded on their way, which takes many times their size in memory.
	Verbatim bool
}

// Whole is the method with schemas that refer to nothing outside themselves.
func (m Method) Whole() (Method, error) {
	if m.Shared == nil {
		return m, nil
	}
	return m.Expanded(func(schema json.RawMessage) (json.RawMessage, error) { return m.Shared.Schemas.Expand(nil, schema) })
}

// Callable is Whole for one method that is called now: the next call of it takes
// what this one has written. Nobody changes its schemas.
func (m Method) Callable() (Method, error) {
	if m.Shared == nil {
		return m, nil
	}
	return m.Expanded(m.Shared.Remember)
}

// Expanded is Whole with another function that writes a schema out.
func (m Method) Expanded(expand func(schema json.RawMessage) (json.RawMessage, error)) (Method, error) {
	var err error
	if m.Request, err = expand(m.Request); err != nil {
		return m, fmt.Errorf("schema of the arguments of %s: %w", m.Name, err)
	}
	if m.Response, err = expand(m.Response); err != nil {
		return m, fmt.Errorf("schema of the result of %s: %w", m.Name, err)
	}
	m.Shared = nil
	return m, nil
}

// What a method does, as a column and a listing say it.
const (
	EffectRead  = "read"
	EffectWrite = "write"
)

// Reads reports whether the method changes nothing, as far as is known: somebody
// said so, or it is called with GET and nobody said otherwise.
func (m Method) Reads() bool {
	return m.Effect == EffectRead || m.Effect == "" && (m.HTTPMethod == "GET" || m.HTTPMethod == "HEAD")
}

// Callers says who may call the method.
func (m Method) Callers() Callers { return callersOf(m.Name, m.AllowedCallers) }

// Priced picks those fields of methods that prices depend on.
func Priced(methods []Method) []price.Method {
	out := make([]price.Method, len(methods))
	for i, m := range methods {
		out[i] = price.Method{Name: m.Name, Request: m.Request, Response: m.Response, Rules: m.Rules, TokenPricing: m.TokenPricing}
	}
	return out
}

// Adapter is what a method needs besides its endpoint:
// docs/wire/refly.md#config-based-requests.
type Adapter struct {
	Headers map[string]string `json:"headers,omitempty" yaml:"headers"`
	// TimeoutMS bounds one call, in milliseconds; 0 for the default.
	TimeoutMS int `json:"timeout,omitempty" yaml:"timeout"`
	// MaxRetries is how often a call is repeated where that is safe; nil for
	// the default.
	MaxRetries *int `json:"maxRetries,omitempty" yaml:"maxRetries"`
	// UseFormData sends arguments as multipart/form-data, not as JSON.
	UseFormData bool `json:"useFormData,omitempty" yaml:"useFormData"`
	// QueryParameters are arguments that go into the query whatever the HTTP
	// method, HeaderParameters those that go into the header of that name.
	// BodyParameter is the argument that is the whole body.
	QueryParameters  []string          `json:"queryParameters,omitempty" yaml:"queryParameters"`
	HeaderParameters map[string]string `json:"headerParameters,omitempty" yaml:"headerParameters"`
	BodyParameter    string            `json:"bodyParameter,omitempty" yaml:"bodyParameter"`
	// Parameters are arguments that go elsewhere, under another name, or in a way
	// of their own.
	Parameters map[string]Parameter `json:"parameters,omitempty" yaml:"-"`
	// Body says when a body is sent: BodyNone, BodyOptional, or empty for always.
	Body string `json:"body,omitempty" yaml:"body"`
	// Idempotent says that repeating the call does no harm, whatever its HTTP
	// method.
	Idempotent bool `json:"idempotent,omitempty" yaml:"idempotent"`
	// Polling says how to wait for an upstream that only starts a task.
	Polling *Polling `json:"polling,omitempty" yaml:"-"`
	// GraphQL says that the method is a request in that language.
	GraphQL *GraphQL `json:"graphql,omitempty" yaml:"-"`
}

// Polling is how an asynchronous upstream is asked about a task:
// docs/wire/refly.md#polling. Paths have dots between members; what is left out
// is looked for where most upstreams have it.
type Polling struct {
	// StatusURL is asked; {id} in it stands for the task. A path is one of the
	// toolset's domain.
	StatusURL    string          `json:"statusUrl" yaml:"statusUrl"`
	StatusMethod string          `json:"statusMethod,omitempty" yaml:"statusMethod"`
	StatusBody   json.RawMessage `json:"statusBody,omitempty" yaml:"-"`
	TaskIDPath   string          `json:"taskIdPath,omitempty" yaml:"taskIdPath"`
	StatusPath   string          `json:"statusPath,omitempty" yaml:"statusPath"`
	ResultPath   string          `json:"resultPath,omitempty" yaml:"resultPath"`
	// The words of a status, without regard to case.
	CompletedStatuses []string `json:"completedStatuses,omitempty" yaml:"completedStatuses"`
	FailedStatuses    []string `json:"failedStatuses,omitempty" yaml:"failedStatuses"`
	// MaxWaitSeconds bounds the waiting, as does the server's TOOL_MAX_TIMEOUT.
	MaxWaitSeconds  int `json:"maxWaitSeconds,omitempty" yaml:"maxWaitSeconds"`
	IntervalSeconds int `json:"intervalSeconds,omitempty" yaml:"intervalSeconds"`
}

// Timeout is TimeoutMS as a duration.
func (a Adapter) Timeout() time.Duration { return time.Duration(a.TimeoutMS) * time.Millisecond }

// Broken says that what is stored about a toolset cannot be read. It concerns
// that toolset alone: whoever lists several goes on without it.
func Broken(key string, cause error) error {
	return errs.Newf(errs.Unavailable, "Toolset %s cannot be used: what the server has stored about it cannot be read.", key).
		Do("If it is one of your own, install it again; otherwise the administrator applies its file again. The server's log has the reason.").
		With(unreadable{key, cause})
}

// unreadable is the cause of a broken toolset.
type unreadable struct {
	key   string
	cause error
}

// Error implements error.
func (u unreadable) Error() string { return "toolset " + u.key + ": " + u.cause.Error() }

// Unwrap returns what could not be read.
func (u unreadable) Unwrap() error { return u.cause }

// Missing is the error for a key that means nothing to the caller.
func Missing(key string) error { return rows.Missing(key) }

// NoMethod is the error for a tool that a toolset does not have.
func NoMethod(key, name, available string) error {
	return errs.Newf(errs.NotFound, "Method '%s' not found in toolset '%s'. Available methods: %s", name, key, available)
}

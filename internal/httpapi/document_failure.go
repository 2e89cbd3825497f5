package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portico-run/portico/internal/errs"
)

// failures are the codes of the errors that the document promises for an
// operation, by their statuses.
func failures(op Operation) map[int][]errs.Code {
	codes := append([]errs.Code{errs.Invalid, errs.Internal}, op.Errors...)
	if op.Access != Public {
		codes = append(codes, errs.Unauthorized, errs.Forbidden)
	}
	if op.Method == http.MethodPost || op.Method == http.MethodPatch || op.Method == http.MethodPut {
		codes = append(codes, errs.TooLarge, errs.Unsupported)
	}
	slices.Sort(codes)
	out := map[int][]errs.Code{}
	for _, c := range slices.Compact(codes) {
		out[c.Status()] = append(out[c.Status()], c)
	}
	return out
}

func (a *API) documentFailure(op Operation, h *huma.Operation, status int, codes []errs.Code) {
	r := &huma.Response{Content: map[string]*huma.MediaType{jsonMedia: {Examples: map[string]*huma.Example{}}}}
	m := r.Content[jsonMedia]
	var meanings []string
	for _, code := range codes {
		meanings = append(meanings, fmt.Sprintf("%s: %s", code, code.Meaning()))
		e := errs.New(code, code.Meaning()).Do("What to do about it, in a sentence.")
		var body any = &failure{ErrCode: e.Code, ErrMsg: e.Message, Detail: e.Detail, TraceID: exampleTrace}
		if op.Refusal != nil {
			body = op.Refusal(e, exampleTrace)
		}
		m.Schema = a.schema(body)
		m.Examples[string(code)] = a.shared(m.Schema.Ref, string(code), body)
	}
	r.Description = strings.Join(meanings, ". ")
	if slices.ContainsFunc(codes, func(c errs.Code) bool { return c == errs.RateLimited || c == errs.Unavailable }) {
		r.Headers = map[string]*huma.Param{"Retry-After": {Description: "Seconds after which trying again can help", Schema: &huma.Schema{Type: huma.TypeInteger, Examples: []any{1}}}}
	}
	if answer := h.Responses[strconv.Itoa(status)]; answer != nil && op.Raw.Statuses[status] != "" { // an answer of another form has the status, too
		m.Schema = &huma.Schema{AnyOf: []*huma.Schema{answer.Content[jsonMedia].Schema, m.Schema}}
		r.Description = op.Raw.Statuses[status] + ". " + r.Description
	}
	h.Responses[strconv.Itoa(status)] = r
}

// shared is an example that many operations have.
func (a *API) shared(ref, name string, value any) *huma.Example {
	c := a.huma.OpenAPI().Components
	if c.Examples == nil {
		c.Examples = map[string]*huma.Example{}
	}
	name = strings.TrimPrefix(ref, componentPath) + "-" + name
	c.Examples[name] = &huma.Example{Value: value}
	return &huma.Example{Ref: "#/components/examples/" + name}
}

const exampleTrace = "0b4f4e0a-6f5e-4f6a-9d6b-0d4f3b1c2a19"

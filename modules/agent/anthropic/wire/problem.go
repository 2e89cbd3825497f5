package wire

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/peer"
	"github.com/portico-run/portico/modules/agent/dialogue"
)

// Details are what programs read of an error: docs/wire/anthropic.md#errors. They are
// the cause of an *errs.Error.
type Details map[string]any

// Error implements error.
func (d Details) Error() string { return fmt.Sprint(d["error_code"]) }

// Coded is an error with a code of the vendor's.
func Coded(e *errs.Error, code string) *errs.Error { return e.With(Details{"error_code": code}) }

// Invalid says what is wrong with a parameter, named as the vendor does:
// messages.0.content.
func Invalid(parameter, format string, args ...any) *errs.Error {
	return errs.New(errs.Invalid, parameter+": "+fmt.Sprintf(format, args...))
}

// Of puts refusals of the engine into the vendor's words.
func Of(err error) error {
	if e, ok := errors.AsType[*peer.Elsewhere](err); ok {
		return e.In(Of)
	}
	if m, ok := errors.AsType[*dialogue.Missing](err); ok {
		return lacking(m)
	}
	e, known := errors.AsType[*errs.Error](err)
	switch {
	case !known:
		return err
	case errors.Is(err, dialogue.ErrSessionGone), errors.Is(err, dialogue.ErrCallGone), errors.Is(err, dialogue.ErrDecisionGone):
		return Coded(e, "container_expired")
	}
	return err
}

// lacking names the calls whose results are missing, or were not asked for.
func lacking(m *dialogue.Missing) error {
	if lacking := append(slices.Clone(m.Direct), outward(m.Programs)...); len(lacking) > 0 {
		return errs.Newf(errs.Invalid, "messages: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a "+
			"corresponding `tool_result` block in the next message.", strings.Join(lacking, ", "))
	}
	return errs.Newf(errs.Invalid, "messages: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding "+
		"`tool_use` block in the previous message.", strings.Join(append(slices.Clone(m.Unknown), m.Undecided...), ", "))
}

// outward are ids of calls of programs as clients know them.
func outward(ids []string) []string {
	shown := make([]string, len(ids))
	for i, id := range ids {
		shown[i] = CallPrefix + id
	}
	return shown
}

// ReplyError is the body of an error: docs/wire/anthropic.md#errors.
type ReplyError struct {
	Type      string       `json:"type" enum:"error"`
	Error     ReplyProblem `json:"error"`
	RequestID string       `json:"request_id" doc:"Names the request in the server's log"`
	ErrCode   string       `json:"errCode" doc:"This server's own code: docs/errors.md"`
	ErrMsg    string       `json:"errMsg" doc:"What is wrong"`
}

// ReplyProblem says what is wrong.
type ReplyProblem struct {
	Type    string         `json:"type" doc:"What kind of error it is" example:"invalid_request_error"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty" doc:"With error_code, where programs may react to it"`
}

// Refuse writes an error in the vendor's form.
func Refuse(e *errs.Error, traceID string) any {
	return ReplyError{Type: "error", Error: problemOf(e), RequestID: traceID, ErrCode: string(e.Code), ErrMsg: e.Message}
}

func problemOf(e *errs.Error) ReplyProblem {
	text := e.Message
	if e.Detail != "" {
		if !strings.HasSuffix(text, ".") {
			text += "."
		}
		text += " " + e.Detail
	}
	details, _ := e.Unwrap().(Details) //nolint:errorlint // it is the cause itself, or there is none
	return ReplyProblem{Type: kindOf(e.Code), Message: text, Details: details}
}

// kindOf is the vendor's word for a code.
func kindOf(code errs.Code) string {
	switch code.Status() {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestTimeout:
		return "timeout_error"
	case http.StatusConflict:
		return "conflict_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	}
	if code.Status() >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

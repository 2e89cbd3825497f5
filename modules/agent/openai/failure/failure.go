// Package failure says what is wrong in the form that clients of OpenAI's read.
package failure

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/peer"
	"github.com/portico-run/portico/modules/agent/dialogue"
)

// about is what the form has beside a sentence. It is the cause of an error.
type about struct {
	param, code string
	cause       error
}

// Error implements error.
func (a about) Error() string {
	text := "param " + a.param + ", code " + a.code
	if a.cause != nil {
		text += ": " + a.cause.Error()
	}
	return text
}

// Unwrap returns what is behind it.
func (a about) Unwrap() error { return a.cause }

// The codes that clients react to: docs/wire/openai.md#errors.
const (
	InvalidValue     = "invalid_value"
	Missing          = "missing_required_parameter"
	UnsupportedParam = "unsupported_parameter"
	UnsupportedValue = "unsupported_value"
	ModelMissing     = "model_not_found"
	PreviousMissing  = "previous_response_not_found"
	ContextLength    = "context_length_exceeded"
	rateLimit        = "rate_limit_exceeded"
	quota            = "insufficient_quota"
	keyInvalid       = "invalid_api_key"
	fault            = "server_error"
)

// New is an error about a parameter, as clients name it: tools[0].name.
func New(code errs.Code, param, word, format string, args ...any) *errs.Error {
	return errs.Newf(code, format, args...).With(about{param: param, code: word})
}

// Invalid is a parameter with a value that it cannot have.
func Invalid(param, format string, args ...any) *errs.Error {
	return New(errs.Invalid, param, InvalidValue, format, args...)
}

// Unsupported is a parameter that this server does not know what to do with, so that
// it may not be given.
func Unsupported(param, format string, args ...any) *errs.Error {
	return New(errs.Invalid, param, UnsupportedParam, format, args...)
}

// At names the parameter that an error is about, which has no name yet.
func At(param string, err error) error {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return err
	}
	if _, named := errors.AsType[about](err); named {
		return err
	}
	word := ""
	if e.Code == errs.Invalid {
		word = InvalidValue
	}
	return e.With(about{param: param, code: word, cause: e.Unwrap()})
}

// Of puts refusals of the engine into the words of the form. The ids of calls of
// programs begin with the prefix there.
func Of(err error, prefix string) error {
	if e, ok := errors.AsType[*peer.Elsewhere](err); ok {
		return e.In(func(err error) error { return Of(err, prefix) })
	}
	if m, ok := errors.AsType[*dialogue.Missing](err); ok {
		switch {
		case len(m.Direct) > 0:
			return NoOutput(m.Direct[0])
		case len(m.Programs) > 0:
			return NoOutput(prefix + m.Programs[0])
		case len(m.Unknown) > 0:
			return NoCall(m.Unknown[0])
		}
		return NoApproval(m.Undecided[0])
	}
	switch {
	case errors.Is(err, dialogue.ErrModelMissing):
		return word(err, "model", ModelMissing)
	case errors.Is(err, dialogue.ErrTooLong):
		return word(err, "", ContextLength)
	case errors.Is(err, dialogue.ErrCallGone), errors.Is(err, dialogue.ErrDecisionGone), errors.Is(err, dialogue.ErrSessionGone), errors.Is(err, dialogue.ErrOtherResults):
		return word(err, "input", "")
	}
	return err
}

func word(err error, param, code string) error {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return err
	}
	return e.With(about{param: param, code: code, cause: err})
}

// NoOutput is a call whose output is not there.
func NoOutput(callID string) *errs.Error {
	return New(errs.Invalid, "input", "", "No tool output found for function call %s.", callID)
}

// NoCall is an output whose call is not there.
func NoCall(callID string) *errs.Error {
	return New(errs.Invalid, "input", "", "No tool call found for function call output with call_id %s.", callID)
}

// NoApproval is a decision about a call that nobody asked about.
func NoApproval(id string) *errs.Error {
	return New(errs.Invalid, "input", "", "No approval request found for mcp_approval_response with approval_request_id %s.", id)
}

// OpenAIFailure is an error in the form.
type OpenAIFailure struct {
	Error OpenAIError `json:"error"`
}

// OpenAIError is the one member of OpenAIFailure.
type OpenAIError struct {
	Message string  `json:"message" doc:"What is wrong, and what to do about it"`
	Type    string  `json:"type" doc:"The kind of error" example:"invalid_request_error"`
	Param   *string `json:"param" nullable:"true" doc:"The parameter that it is about"`
	Code    *string `json:"code" nullable:"true" doc:"Programs react to it" example:"invalid_value"`
}

// Refusal is the body of a request that was refused.
func Refusal(e *errs.Error, traceID string) any {
	body := OpenAIFailure{Error: OpenAIError{Message: sentence(e), Type: kind(e.Code)}}
	if e.Code.Status() >= http.StatusInternalServerError && traceID != "" {
		body.Error.Message += fmt.Sprintf(" The server's log has more under %s.", traceID)
	}
	code := usual(e.Code)
	if a, ok := errors.AsType[about](e); ok {
		if a.param != "" {
			body.Error.Param = &a.param
		}
		if a.code != "" {
			code = a.code
		}
	}
	if code != "" {
		body.Error.Code = &code
	}
	return body
}

// Describe is an error that comes after the answer has begun.
func Describe(err error) OpenAIError {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		e = errs.New(errs.Internal, "The server has a fault.")
	}
	body, _ := Refusal(e, "").(OpenAIFailure)
	return body.Error
}

func sentence(e *errs.Error) string {
	text := e.Message
	if e.Detail != "" {
		if !strings.HasSuffix(text, ".") {
			text += "."
		}
		text += " " + e.Detail
	}
	if e.URL != "" {
		text += " " + e.URL
	}
	return text
}

func kind(code errs.Code) string {
	switch status := code.Status(); {
	case status >= http.StatusInternalServerError:
		return fault
	case code == errs.RateLimited:
		return rateLimit
	case code == errs.NoCredits, code == errs.StorageFull:
		return quota
	}
	return "invalid_request_error"
}

// usual is the word for an error that has none of its own.
func usual(code errs.Code) string {
	switch {
	case code == errs.Unauthorized:
		return keyInvalid
	case code == errs.RateLimited:
		return rateLimit
	case code == errs.NoCredits, code == errs.StorageFull:
		return quota
	case code.Status() >= http.StatusInternalServerError:
		return fault
	}
	return ""
}

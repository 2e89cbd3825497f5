package codeapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/sandbox"
)

// failure says why a program did not complete.
func (c controller) failure(r execution.Reply) (status int, said string) {
	status = http.StatusOK
	switch r.Cause {
	case execution.Exited:
		said = fmt.Sprintf("Sandbox exited with code %d", r.Result.ExitCode)
		if line := lastLine(r.Result.Stderr); !r.Phrases && line != "" {
			said = line
		}
	case execution.TimeLimit:
		status, said = http.StatusRequestTimeout, "Execution timeout"
		if r.Phrases {
			said = timeExceeded
		}
	case execution.MemoryLimit:
		said = memoryExceeded
	case execution.RoundLimit:
		status, said = http.StatusBadRequest, fmt.Sprintf("Exceeded maximum round trips (%d)", c.settings.Programs.MaxRounds)
	case execution.Crowded: // no status that clients repeat requests for
		status, said = http.StatusBadRequest, "Too many programs wait for their tools; the program could not wait for its own"
	case execution.IdleLimit:
		status, said = http.StatusBadRequest, execution.ErrTokenExpired.Message
	case execution.Cancelled:
		said = "Execution was cancelled"
	case execution.Lost:
		status, said = http.StatusServiceUnavailable, sandbox.ErrLost.Message
	case execution.Stopped:
		status, said = http.StatusServiceUnavailable, "The server is stopping; run the program again"
	default:
		said = "Execution failed or timed out"
	}
	if r.Phrases {
		status = http.StatusOK
	}
	return status, said
}

// refusal is the body of a request that was not taken.
func refusal(e *errs.Error, traceID string) any {
	body := codeRefusal{
		Status: "error", Error: e.Message, Message: sentence(e), ErrCode: string(e.Code), ErrMsg: e.Message, ErrDetail: e.Detail, RequestID: traceID,
	}
	if e.Code == errs.Unavailable || e.Code == errs.RateLimited {
		body.ErrorCode = sandbox.FailedUnavailable // it did not begin, so that it made no calls
	}
	if e.Code == errs.RateLimited {
		body.Error, body.RetryAfter = "rate_limited", httpapi.RetryAfter(e)
	}
	return body
}

// codeRefusal has the members of this API's errors and of the envelope.
type codeRefusal struct {
	_          struct{}        `additionalProperties:"true"`
	Status     string          `json:"status" enum:"error"`
	Error      string          `json:"error" doc:"What is wrong; rate_limited with status 429"`
	Message    string          `json:"message,omitempty" doc:"What is wrong, and what to do about it"`
	RetryAfter int             `json:"retry_after_seconds,omitempty"`
	RequestID  string          `json:"request_id,omitempty" doc:"Names the request in the server's log"`
	ErrorCode  sandbox.Failure `json:"error_code,omitempty" doc:"runtime_unavailable when the sandbox did not take the program, which has made no calls"`
	Success    bool            `json:"success" required:"false"`
	ErrCode    string          `json:"errCode,omitempty" doc:"Stable; programs react to it"`
	ErrMsg     string          `json:"errMsg,omitempty"`
	ErrDetail  string          `json:"errDetail,omitempty"`
}

func sentence(e *errs.Error) string {
	text := e.Message
	if e.Detail != "" {
		if !strings.HasSuffix(text, ".") {
			text += "."
		}
		text += " " + e.Detail
	}
	return text
}

// lastLine is the line that says what a traceback is about.
func lastLine(text string) string {
	text = strings.TrimRight(text, "\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}

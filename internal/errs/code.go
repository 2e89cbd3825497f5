package errs

import "net/http"

// Code is the stable, public name of a kind of failure. Clients switch on it;
// the sentence beside it may change. Numbers that Refly gave a meaning keep it:
// docs/wire/refly.md#answers-and-errors.
type Code string

// The public error codes. Every code a client can see is in this list.
const (
	Internal       Code = "E0000" // a fault of the server; the cause is in its log
	Unavailable    Code = "E0001" // a part the server needs is out of reach; try again later
	Invalid        Code = "E0003" // the request is malformed; the message names the field
	AccountMissing Code = "E0005" // no such user
	Unauthorized   Code = "E0012" // no credential, or one that is not valid
	Forbidden      Code = "E0020" // the credential is valid and may not do this
	NotFound       Code = "E0021" // no such thing, or not the caller's
	Conflict       Code = "E0022" // the state of the thing does not allow this now
	TooLarge       Code = "E0023" // the request is over a size limit
	RateLimited    Code = "E0024" // too many requests or too much waiting work
	MethodUnknown  Code = "E0025" // the route exists, the HTTP method does not
	Unsupported    Code = "E0026" // the body has a content type the server does not read
	Cancelled      Code = "E0027" // the caller went away before the answer
	TimedOut       Code = "E0028" // a program ran into its time limit
	ToolFailed     Code = "E0029" // a tool did not do its work, on routes that answer with the tool's result alone
	CanvasMissing  Code = "E1000"
	ResultMissing  Code = "E1011" // no such run, or not the caller's
	ToolsetMissing Code = "E1020"
	FileMissing    Code = "E1024"            // no such drive file, or not the caller's
	StorageFull    Code = "E2001"            // the user's files take all the space they may
	NoCredits      Code = "E2002"            // the credit balance does not allow the call
	Settled        Code = "APPROVAL_SETTLED" // somebody, or time, decided before
)

// statusClientClosed is the status logged for a caller that went away; nobody
// reads it, and it must not count as a server error.
const statusClientClosed = 499

// Status is the HTTP status an answer with this code carries.
func (c Code) Status() int {
	switch c {
	case Invalid:
		return http.StatusBadRequest
	case Unauthorized:
		return http.StatusUnauthorized
	case NoCredits:
		return http.StatusPaymentRequired
	case Forbidden:
		return http.StatusForbidden
	case NotFound, AccountMissing, CanvasMissing, ResultMissing, ToolsetMissing, FileMissing:
		return http.StatusNotFound
	case MethodUnknown:
		return http.StatusMethodNotAllowed
	case Conflict, Settled:
		return http.StatusConflict
	case TooLarge, StorageFull:
		return http.StatusRequestEntityTooLarge
	case Unsupported:
		return http.StatusUnsupportedMediaType
	case RateLimited:
		return http.StatusTooManyRequests
	case TimedOut:
		return http.StatusRequestTimeout
	case Cancelled:
		return statusClientClosed
	case Unavailable:
		return http.StatusServiceUnavailable
	case ToolFailed:
		return http.StatusBadGateway
	default:
		return http.StatusInternalServerError
	}
}

// Codes lists every public code, for the documentation and its test.
func Codes() []Code {
	return []Code{
		Internal, Unavailable, Invalid, AccountMissing, Unauthorized, Forbidden, NotFound, Conflict,
		TooLarge, RateLimited, MethodUnknown, Unsupported, Cancelled, TimedOut, ToolFailed, CanvasMissing, ResultMissing,
		ToolsetMissing, FileMissing, StorageFull, NoCredits, Settled,
	}
}

// Meaning says when an operation answers with the code, for the documentation.
func (c Code) Meaning() string {
	switch c {
	case Unavailable:
		return "A part that the server needs is out of reach"
	case Invalid:
		return "The request is not valid"
	case AccountMissing:
		return "There is no such user"
	case Unauthorized:
		return "There is no credential, or one that is not valid"
	case Forbidden:
		return "The credential may not do this"
	case NotFound:
		return "There is no such thing, or it is not the caller's"
	case Conflict:
		return "The state of the thing does not allow this now"
	case TooLarge:
		return "The request is larger than its limit"
	case RateLimited:
		return "Too many requests, or too much work that waits"
	case MethodUnknown:
		return "The route does not take the method"
	case Unsupported:
		return "The body has a content type that the server does not read"
	case Cancelled:
		return "The caller went away before the answer"
	case TimedOut:
		return "The program ran into its time limit"
	case ToolFailed:
		return "The tool did not do its work"
	case CanvasMissing:
		return "There is no such canvas, or it is not the caller's"
	case ResultMissing:
		return "There is no such run, or it is not the caller's"
	case ToolsetMissing:
		return "There is no such toolset, or the caller may not use it"
	case FileMissing:
		return "There is no such file, or it is not the caller's"
	case StorageFull:
		return "The user's files take all the space they may"
	case NoCredits:
		return "The credits do not allow this"
	case Settled:
		return "The approval was decided before, or has expired"
	default:
		return "The server has a fault; its log has the cause"
	}
}

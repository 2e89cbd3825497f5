// Package account keeps users, their API keys and their sessions, and says
// who a request is from.
package account

import (
	"regexp"
	"time"

	"github.com/portico-run/portico/internal/errs"
)

// User is a tenant.
type User struct {
	UID       string
	Name      string // unique
	Email     string // unique when it is not empty
	Disabled  bool   // refused, whatever the credential
	Admin     bool   // may use the routes for administrators
	CreatedAt time.Time
	// From is where a user comes from that a host's token made; nil for others.
	From *Identity
}

// Role is the user's, as it is written.
func (u User) Role() string {
	if u.Admin {
		return roleAdmin
	}
	return roleUser
}

// Identity is a person as a host knows them. The subject alone says nothing:
// each tenant of a host has its own.
type Identity struct{ Issuer, Tenant, Subject string }

// Errors of the service. The answers to every bad credential of one kind are
// the same, so that they tell nothing.
var (
	ErrBadKey   = errs.New(errs.Unauthorized, "Invalid API key").Do("Use a key that is neither revoked nor expired.")
	ErrBadToken = errs.New(errs.Unauthorized, "Invalid session token").Do("Sign in again.")
	// ErrBadHostToken is the answer to every token of a host that is not good;
	// the log has the reason.
	ErrBadHostToken = errs.New(errs.Unauthorized, "Invalid bearer token").Do("Check the key, issuer, audience and clock of the host; the server's log has the reason under this request's id.")
	ErrManyUsers    = errs.New(errs.Forbidden, "This server takes no more people of hosts.").Do("Ask its operator to raise CODEAPI_JWT_MAX_USERS.")
	ErrKeyMissing   = errs.New(errs.NotFound, "API key not found or already revoked").Do("List your keys with GET /v1/auth/cli/api-key.")
	ErrUserMissing  = errs.New(errs.AccountMissing, "There is no such user.").Do("List the users with `portico user list`.")
	ErrNameTaken    = errs.New(errs.Conflict, "A user with this name or e-mail address exists.").Do("Choose another name.")
	ErrJoined       = errs.New(errs.Conflict, "This user is another person elsewhere already.")
	ErrBadEmail     = errs.New(errs.Invalid, "This is no e-mail address.")
	ErrBadUser      = errs.New(errs.Invalid, "A user's name has 1 to 64 letters, digits, dots, dashes or underscores.")
	ErrBadKeyName   = errs.Newf(errs.Invalid, "An API key's name has 1 to %d characters.", maxKeyName)
	ErrBadScope     = errs.New(errs.Invalid, "A scope is read, run or tools.").Do("Leave scopes out for a key that may do everything.")
	ErrBadKeyDays   = errs.Newf(errs.Invalid, "expiresInDays is a number from 0 (never) to %d.", maxKeyDays)
)

// maxEmail is the longest e-mail address.
const maxEmail = 320

var emailForm = regexp.MustCompile(`^[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+$`)

var nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

package execution

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/signing"
)

// Refusals of continuation tokens.
var (
	ErrTokenInvalid = errs.New(errs.Invalid, "Invalid continuation token")
	ErrTokenExpired = errs.New(errs.Invalid, "Execution expired")
	ErrTokenUsed    = errs.New(errs.Invalid, "Continuation token was used before")
	ErrTokenForeign = errs.New(errs.Forbidden, "Continuation token belongs to another user")
	ErrContinuing   = errs.New(errs.Conflict, "Execution is being continued by another request")
	ErrGone         = errs.New(errs.NotFound, "Execution not found or expired")
	ErrLost         = errs.New(errs.NotFound, "Execution was lost: the server process that held it has ended")
	ErrElsewhere    = errs.New(errs.NotFound, "Execution is not held by this server process: another one holds it, or held it when it was killed")
)

// ticket is what a continuation token says.
type ticket struct {
	Execution string `json:"e"`
	Session   string `json:"s"`
	UID       string `json:"u"`
	Round     int    `json:"r"`
	Expires   int64  `json:"x"`           // seconds since 1970
	Node      string `json:"n,omitempty"` // the process that holds it
}

// tokens signs and reads continuation tokens.
type tokens struct{ keys signing.Keys }

func (t tokens) issue(k ticket) (string, error) {
	text, err := json.Marshal(k)
	if err != nil {
		return "", err
	}
	payload := base64.RawURLEncoding.EncodeToString(text)
	return payload + "." + base64.RawURLEncoding.EncodeToString(t.keys.Sum(payload)), nil
}

// read checks a token's signature, owner and time, in this order.
func (t tokens) read(token, uid string, now time.Time) (ticket, error) {
	payload, signature, ok := strings.Cut(token, ".")
	signed, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if !ok || err != nil || !t.keys.Signed(payload, signed) {
		return ticket{}, ErrTokenInvalid.Do("Send the continuation_token of the last answer, unchanged.")
	}
	var k ticket
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	switch {
	case err != nil:
		return ticket{}, ErrTokenInvalid.With(err)
	case k.UID != uid:
		return ticket{}, ErrTokenForeign.Do("Continue with the credential that started the execution.")
	case now.Unix() >= k.Expires:
		return ticket{}, ErrTokenExpired.Do("Run the program again.")
	}
	return k, nil
}

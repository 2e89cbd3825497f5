package hosttoken

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

// Bounds of a token, in bytes.
const (
	maxToken = 8 << 10
	maxClaim = 256
)

// Why tokens are refused: for the log, never for whoever sent one. None repeats
// anything of the token but the beginning of its kid.
var (
	errTooLong   = fmt.Errorf("it is longer than %d bytes", maxToken)
	errHeader    = errors.New("its header has another type than JWT, or extensions")
	errAlgorithm = errors.New("its algorithm is not that of its key")
	errTimes     = errors.New("it lacks iat, or lives longer than it may")
	errWho       = errors.New("its sub, tenant_id, plan_id or code_worker_id is missing, too long or no plain text")
)

// unknownKey is the kid of no key.
type unknownKey string

// maxShown is how much of a kid is shown, in bytes.
const maxShown = 64

func (u unknownKey) Error() string {
	return fmt.Sprintf("its kid %q is not that of any key", string(u[:min(len(u), maxShown)]))
}

// Claimed reports whether a token says of itself that it is a host's, and no
// session token, which is signed with HS256 and has no kid.
func Claimed(token string) bool {
	head, _, _ := strings.Cut(token[:min(len(token), maxToken)], ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	var h struct {
		Alg string `json:"alg"`
		Kid string `json:"kid"`
	}
	if err != nil || json.Unmarshal(text, &h) != nil {
		return false
	}
	return h.Kid != "" || h.Alg != jwt.SigningMethodHS256.Alg()
}

// claims are those of the token's payload that are read. Others are the host's
// business.
type claims struct {
	jwt.RegisteredClaims

	Tenant *string `json:"tenant_id"`
	Plan   string  `json:"plan_id"`
	Worker string  `json:"code_worker_id"`
}

// Verify returns what a good token says. Its error is ErrNoKeys, or a reason
// to refuse the token, for the log.
func (v *Verifier) Verify(token string) (Claims, error) {
	if len(token) > maxToken {
		return Claims{}, errTooLong
	}
	var c claims
	if _, err := v.parser.ParseWithClaims(token, &c, v.keyOf); err != nil {
		return Claims{}, reason(err)
	}
	if c.IssuedAt == nil || !c.ExpiresAt.After(c.IssuedAt.Time) || c.ExpiresAt.Sub(c.IssuedAt.Time) > v.MaxLife {
		return Claims{}, errTimes
	}
	out := Claims{Issuer: c.Issuer, Tenant: defaultTenant, Subject: c.Subject, Plan: c.Plan, Worker: c.Worker, IssuedAt: c.IssuedAt.UTC()}
	if c.Tenant != nil {
		out.Tenant = *c.Tenant
	}
	named := c.Tenant != nil || !v.TenantRequired
	if !named || !plain(out.Tenant) || !plain(out.Subject) || out.Plan != "" && !plain(out.Plan) || out.Worker != "" && !plain(out.Worker) {
		return Claims{}, errWho
	}
	return out, nil
}

// keyOf finds the key that a token has to be signed with.
func (v *Verifier) keyOf(t *jwt.Token) (any, error) {
	_, extended := t.Header["crit"]
	if kind, set := t.Header["typ"]; extended || set && kind != "JWT" {
		return nil, errHeader
	}
	kid, _ := t.Header["kid"].(string)
	one, err := v.key(kid)
	if err != nil {
		return nil, err
	}
	if t.Method.Alg() != one.alg {
		return nil, errAlgorithm
	}
	return one.value, nil
}

// plain reports whether a claim names somebody: text that shows.
func plain(text string) bool {
	return strings.TrimSpace(text) != "" && len(text) <= maxClaim && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// reason is an error of the library without what it quotes of the token.
func reason(err error) error {
	if unknown, ok := errors.AsType[unknownKey](err); ok {
		return unknown
	}
	for _, known := range []error{
		ErrNoKeys, errHeader, errAlgorithm, jwt.ErrTokenMalformed, jwt.ErrTokenSignatureInvalid, jwt.ErrTokenExpired,
		jwt.ErrTokenNotValidYet, jwt.ErrTokenUsedBeforeIssued, jwt.ErrTokenInvalidIssuer, jwt.ErrTokenInvalidAudience,
		jwt.ErrTokenRequiredClaimMissing,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	return jwt.ErrTokenInvalidClaims
}

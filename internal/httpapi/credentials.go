package httpapi

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/portico-run/portico/internal/errs"
)

// AccessCookie is where a browser keeps its session token: an EventSource cannot
// send headers.
const AccessCookie = "_rf_access"

// ticketParameter is where a page of another origin puts its ticket: it has no
// cookie there.
const ticketParameter = "ticket"

// keyPrefix begins every API key, and no token.
const keyPrefix = "rf_"

// errNoCredential is the answer where a credential is needed and there is none.
var errNoCredential = errs.New(errs.Unauthorized, "The request has no credential.").
	Do("Send an API key as X-API-Key or as Authorization: Bearer rf_…, or a session token as Authorization: Bearer.")

// errOrigin is the answer to what a page of another site had a browser send.
var errOrigin = errs.New(errs.Forbidden, "A browser sent this for a page of another origin.").
	Do("Send it from a page of this server, or of an origin in ORIGIN; without a browser, send an API key in a header.")

// credentials reads the one credential of a request. The first method that is
// used at all decides; there is no falling back to the next.
func (a *API) credentials(r *http.Request, op Operation) (Credentials, error) {
	if key := r.Header.Get("X-API-Key"); key != "" {
		return Credentials{APIKey: key}, nil
	}
	if header := r.Header.Get("Authorization"); header != "" {
		if c, ok := authorization(header); ok {
			return c, nil
		}
		return Credentials{}, errNoCredential
	}
	if ticket := r.URL.Query().Get(ticketParameter); op.Tickets && ticket != "" {
		return Credentials{Ticket: ticket}, nil
	}
	cookie, err := r.Cookie(AccessCookie)
	if err != nil || cookie.Value == "" || !deliberate(r) {
		return Credentials{}, errNoCredential
	}
	if a.guard.Check(r) != nil {
		return Credentials{}, errOrigin
	}
	return Credentials{Token: cookie.Value}, nil
}

// guardOf refuses what browsers send for pages of other origins than the server's
// own and these.
func guardOf(origins []string) *http.CrossOriginProtection {
	g := http.NewCrossOriginProtection()
	for _, origin := range origins {
		_ = g.AddTrustedOrigin(origin) // one that is not an origin is trusted by nobody
	}
	return g
}

// deliberate reports whether a cookie may count: it travels with requests that
// pages of others make. A form can send neither JSON nor a method that changes
// things but POST; and where a browser says which page a request is from, that is
// looked at.
func deliberate(r *http.Request) bool {
	return r.Method != http.MethodPost || isJSON(r) || r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
}

// ambiguous reports whether a request has an API key and a token: whoever sent
// it may mean either person. Of two keys the first counts, as everywhere.
func ambiguous(r *http.Request) bool {
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && bearer != "" && !strings.HasPrefix(bearer, keyPrefix) && r.Header.Get("X-API-Key") != ""
}

// authorization reads the header of that name. A key may also be the user of
// Basic, which clients make of a key in an address, or follow ApiKey.
func authorization(header string) (Credentials, bool) {
	scheme, token, _ := strings.Cut(header, " ")
	if token == "" || strings.Contains(token, " ") {
		return Credentials{}, false
	}
	switch scheme {
	case "Basic":
		text, err := base64.StdEncoding.DecodeString(token)
		user, _, _ := strings.Cut(string(text), ":") // some clients leave the colon out
		return Credentials{APIKey: user}, err == nil && user != ""
	case "ApiKey":
		return Credentials{APIKey: token}, true
	case "Bearer":
		if strings.HasPrefix(token, keyPrefix) {
			return Credentials{APIKey: token}, true
		}
		return Credentials{Token: token}, true
	}
	return Credentials{}, false
}

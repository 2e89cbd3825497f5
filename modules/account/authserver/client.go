package authserver

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/errs"
)

// client is what an app says of itself. Nobody has checked its name.
type client struct {
	Name      string   `json:"client_name,omitempty"`
	Redirects []string `json:"redirect_uris"`
}

const (
	maxName      = 100 // characters of a name
	maxRedirects = 10  // of one app
	maxSealed    = 640 // bytes of all that an app registers: it becomes its id
	maxClientID  = 4096
	idPrefix     = "app."
	sealedAs     = "portico app\n"
)

var (
	errNoClient   = errs.New(errs.NotFound, "The app is not known here: its client_id is not one of this server's.").Do("Connect again in the app, so that it registers anew.")
	errNoRedirect = errs.New(errs.Forbidden, "The app asks to go back to an address that it has not registered.").Do("Do not go on if you did not begin this in the app yourself.")
)

// Registered returns the id of an app that registers: what it says, sealed.
func (s *Service) Registered(c client) (string, error) {
	c.Name = strings.TrimSpace(c.Name)
	switch {
	case len([]rune(c.Name)) > maxName:
		return "", protocol("invalid_client_metadata", "client_name has more than 100 characters.")
	case len(c.Redirects) == 0 || len(c.Redirects) > maxRedirects:
		return "", protocol("invalid_redirect_uri", "redirect_uris has between 1 and 10 addresses.")
	}
	for _, address := range c.Redirects {
		if !mayRedirect(address) {
			return "", protocol("invalid_redirect_uri", "redirect_uris are https addresses, http ones of this machine, and ones of apps, such as notes://connected; without a fragment.")
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	if len(text) > maxSealed {
		return "", protocol("invalid_client_metadata", "The app registers more than 640 bytes.")
	}
	sealed, err := hex.DecodeString(s.deps.Box.Seal(append([]byte(sealedAs), text...)))
	return idPrefix + base64.RawURLEncoding.EncodeToString(sealed), err // shorter
}

// client finds an app by its id: the address of its document, or what it registered.
func (s *Service) client(ctx context.Context, id string) (client, error) {
	if strings.HasPrefix(id, "https://") && len(id) <= maxClientID {
		return s.documents.get(ctx, id)
	}
	sealed, ok := strings.CutPrefix(id, idPrefix)
	if !ok || len(id) > maxClientID {
		return client{}, errNoClient
	}
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return client{}, errNoClient
	}
	opened, err := s.deps.Box.Open(hex.EncodeToString(raw))
	text, ours := strings.CutPrefix(string(opened), sealedAs)
	if err != nil || !ours {
		return client{}, errNoClient
	}
	var c client
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return client{}, errNoClient
	}
	return c, nil
}

// knows reports whether an app registered an address. The port of one of this machine
// is free: an app takes one that nobody uses (RFC 8252, section 7.3).
func (c client) knows(address string) bool {
	if !mayRedirect(address) {
		return false
	}
	return slices.ContainsFunc(c.Redirects, func(registered string) bool {
		return registered == address || anyPort(registered) != "" && anyPort(registered) == anyPort(address)
	})
}

// anyPort is an http address of this machine without its port; empty for any other.
func anyPort(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || !loopback(u.Hostname()) {
		return ""
	}
	u.Host = u.Hostname()
	return u.String()
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || host == "localhost"
}

var ownScheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]{2,63}$`)

// webSchemes are schemes that mean something to browsers, and belong to no app.
var webSchemes = []string{ //nolint:gochecknoglobals // constant
	"http", "https", "javascript", "data", "vbscript", "blob", "file", "filesystem", "about", "view-source", "ftp", "ws", "wss", "mailto", "tel", "sms", "intent", "chrome", "resource",
}

// mayRedirect reports whether a browser may be sent to an address: over https, to this
// machine, or to an app by a scheme of its own.
func mayRedirect(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Fragment != "" || strings.Contains(address, "#") || u.User != nil || u.Opaque != "" || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == '\\' || r > '~' }) {
		return false
	}
	switch {
	case u.Scheme == "https":
		return u.Hostname() != ""
	case u.Scheme == "http":
		return loopback(u.Hostname())
	}
	return ownScheme.MatchString(u.Scheme) && !slices.Contains(webSchemes, u.Scheme) && u.Host+u.Path != ""
}

// placeOf is where an address is, for people.
func placeOf(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return ""
	case u.Scheme != "http" && u.Scheme != "https":
		return u.Scheme + "://" + u.Host
	}
	return u.Host
}

// hashOf is what the database keeps of a secret of at least 128 random bits, and of a
// client's id.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

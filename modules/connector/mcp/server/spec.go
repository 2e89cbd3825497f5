package server

import (
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/ptc"
)

// Spec is the settings of a server, as users and operators give them.
type Spec struct {
	Name      string
	Transport Transport
	URL       string
	// Headers and Env may have placeholders, {{NAME}}, that every user gives a
	// value of their own.
	Headers map[string]string
	Command string
	Args    []string
	Env     map[string]string
	Sandbox bool
	OAuth   bool
	// Client is the OAuth client that was registered for Portico; the zero value
	// has one registered when it is needed.
	Client Client
	// Scopes are what is asked for; none asks for what the server names.
	Scopes  []string
	Egress  []netip.Prefix
	Refresh time.Duration
	Price   money.Amount
	Prices  map[string]money.Amount
	Off     bool
}

// Client is a client of an authorization server.
type Client struct {
	ID     string `json:"id,omitempty"`
	Secret string `json:"secret,omitempty"`
}

// Bounds on the settings of one server.
const (
	maxName    = 32
	maxURL     = 2048
	maxEntries = 32
	maxArgs    = 128
	maxValue   = 8 << 10
	minRefresh = 10 * time.Second
	maxRefresh = 24 * time.Hour
)

var (
	nameForm        = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]{0,30}[a-z0-9])?$`)
	variableForm    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	placeholderForm = regexp.MustCompile(`\{\{([A-Za-z_][A-Za-z0-9_]{0,63})\}\}`)
)

// CheckName refuses what cannot name a server.
func CheckName(name string) error {
	switch {
	case len(name) > maxName || !nameForm.MatchString(name) || strings.Contains(name, "__"):
		return errs.New(errs.Invalid, "name has 1 to 32 lower-case letters, digits, - and _; it begins and ends with a letter or a digit and has no two _ in a row.")
	case name == ptc.Own || ptc.IsBuiltin(name):
		return errs.Newf(errs.Conflict, "name %q belongs to a tool of this server.", name).Do("Choose another name.")
	}
	return nil
}

func invalid(format string, args ...any) error { return errs.Newf(errs.Invalid, format, args...) }

// check refuses settings that cannot work, whoever gives them.
func (s Spec) check() error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	switch s.Transport {
	case HTTP:
		if err := s.checkHTTP(); err != nil {
			return err
		}
	case Stdio:
		if err := s.checkStdio(); err != nil {
			return err
		}
	default:
		return invalid("A server is reached by http or stdio.")
	}
	if s.Refresh != 0 && (s.Refresh < minRefresh || s.Refresh > maxRefresh) {
		return invalid("refresh is between %s and %s.", minRefresh, maxRefresh)
	}
	if s.Price < 0 {
		return invalid("price is not negative.")
	}
	for tool, p := range s.Prices {
		if p < 0 {
			return invalid("The price of %s is not negative.", tool)
		}
	}
	return nil
}

func (s Spec) checkHTTP() error {
	if s.Command != "" || len(s.Args)+len(s.Env) > 0 || s.Sandbox {
		return invalid("A server with a URL has no command, arguments, variables or sandbox.")
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Hostname() == "" || u.Opaque != "":
		return invalid("url is an address such as https://mcp.example.com/mcp.")
	case len(s.URL) > maxURL:
		return invalid("url has at most %d characters.", maxURL)
	case u.User != nil:
		return errs.New(errs.Invalid, "url has no user and password.").Do("Give them as the header Authorization.")
	case u.Fragment != "":
		return invalid("url has no fragment.")
	case placeholderForm.MatchString(s.URL):
		return errs.New(errs.Invalid, "url has no placeholders.").Do("Give what differs between users as a header.")
	case len(s.Headers) > maxEntries:
		return invalid("A server has at most %d headers.", maxEntries)
	}
	for name, value := range s.Headers {
		if !httpguts.ValidHeaderFieldName(name) || reserved(name) {
			return invalid("headers: %q cannot be set.", name)
		}
		if !httpguts.ValidHeaderFieldValue(value) || len(value) > maxValue {
			return invalid("headers: the value of %q is not one line of at most %d bytes.", name, maxValue)
		}
		if s.OAuth && http.CanonicalHeaderKey(name) == "Authorization" {
			return errs.New(errs.Invalid, "With oauth, the header Authorization is the user's token.").Do("Leave out either.")
		}
	}
	return nil
}

// reserved are headers that belong to the protocol, or to HTTP itself.
func reserved(name string) bool {
	name = http.CanonicalHeaderKey(name)
	return strings.HasPrefix(name, "Mcp-") || slices.Contains([]string{
		"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Keep-Alive", "Accept", "Accept-Encoding", "Last-Event-Id",
	}, name)
}

func (s Spec) checkStdio() error {
	switch {
	case s.URL != "" || len(s.Headers) > 0 || s.OAuth || s.Client != Client{}:
		return invalid("A server with a command has no URL, headers or authorization.")
	case s.Command == "" || strings.ContainsRune(s.Command, 0):
		return invalid("command names a program.")
	case len(s.Args) > maxArgs:
		return invalid("A server has at most %d arguments.", maxArgs)
	case len(s.Env) > maxEntries:
		return invalid("A server has at most %d variables.", maxEntries)
	}
	for _, a := range append([]string{s.Command}, s.Args...) {
		if len(a) > maxValue || strings.ContainsRune(a, 0) {
			return invalid("An argument has at most %d bytes, none of them NUL.", maxValue)
		}
	}
	for name, value := range s.Env {
		if !variableForm.MatchString(name) {
			return invalid("env: %q is no name of a variable.", name)
		}
		if len(value) > maxValue || strings.ContainsRune(value, 0) {
			return invalid("env: the value of %q has at most %d bytes, none of them NUL.", name, maxValue)
		}
	}
	return nil
}

// checkOfUser refuses what only operators may set.
func (s Spec) checkOfUser(reach []netip.Prefix) error {
	switch {
	case s.Transport != HTTP || s.Command != "":
		return errs.New(errs.Forbidden, "Servers that are processes are added by the operator.").Do("Give the url of a server that speaks streamable HTTP.")
	case len(s.Egress) > 0:
		return errs.New(errs.Forbidden, "egress is the operator's to set.").Do("Leave it out.")
	case s.Price != 0 || len(s.Prices) > 0:
		return errs.New(errs.Forbidden, "Prices are the operator's to set.").Do("Leave them out.")
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return invalid("url is an address such as https://mcp.example.com/mcp.")
	}
	allowed := false
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		ip = ip.Unmap()
		allowed = slices.ContainsFunc(reach, func(p netip.Prefix) bool { return p.Contains(ip) })
		if !allowed && (!ip.IsGlobalUnicast() || ip.IsPrivate()) {
			return errs.New(errs.Forbidden, "url is a private address.").Do("Give the address of a server on the public internet.")
		}
	}
	if u.Scheme != "https" && !allowed {
		return errs.New(errs.Forbidden, "url begins with https.").Do("Credentials and results would be readable on the way.")
	}
	return nil
}

// placeholders lists the names that users give values, in order.
func placeholders(texts map[string]string) []string {
	var names []string
	for _, text := range texts {
		for _, m := range placeholderForm.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fill puts a user's values in place of the placeholders. missing names those
// without a value.
func fill(texts, values map[string]string) (filled map[string]string, missing []string) {
	filled = make(map[string]string, len(texts))
	for name, text := range texts {
		filled[name] = placeholderForm.ReplaceAllStringFunc(text, func(p string) string {
			variable := placeholderForm.FindStringSubmatch(p)[1]
			value, ok := values[variable]
			if !ok {
				missing = append(missing, variable)
			}
			return value
		})
	}
	slices.Sort(missing)
	return filled, slices.Compact(missing)
}

package configs

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
)

// hidden stands for a secret wherever one would be shown.
const hidden = "[redacted]"

// Secret is a text that shows itself only to Reveal: every way of printing,
// logging or encoding it gives a placeholder, or nothing when it is empty.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// list are the secrets of a text with commas between them.
func (s Secret) list() []string {
	if s == "" {
		return nil
	}
	all := strings.Split(string(s), ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// String returns the placeholder.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString returns the placeholder.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// Format prints the placeholder for every verb. Without it a verb that does
// not fit a text, such as %d, prints the text.
func (s Secret) Format(f fmt.State, verb rune) { format(f, verb, s.String()) }

// MarshalText encodes the placeholder; JSON, XML and YAML use it as well.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON encodes the placeholder.
func (s Secret) MarshalJSON() ([]byte, error) { return strconv.AppendQuote(nil, s.String()), nil }

// LogValue logs the placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// DatabaseURL is the address of a database. It shows itself without its
// password.
type DatabaseURL string

// Reveal returns the address with its password.
func (u DatabaseURL) Reveal() string { return string(u) }

// String returns the address without its password.
func (u DatabaseURL) String() string {
	if !u.isPostgres() {
		// Any part of a text that is not an address may be the password.
		if u == "" || strings.HasPrefix(string(u), sqliteScheme) {
			return string(u)
		}
		return hidden
	}
	parsed, err := url.Parse(string(u))
	if err != nil {
		return hidden
	}
	if _, set := parsed.User.Password(); set {
		parsed.User = url.UserPassword(parsed.User.Username(), "redacted")
	}
	query := parsed.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, "redacted")
			parsed.RawQuery = query.Encode()
		}
	}
	return parsed.String()
}

// GoString returns the address without its password.
func (u DatabaseURL) GoString() string { return strconv.Quote(u.String()) }

// Format prints the address without its password for every verb.
func (u DatabaseURL) Format(f fmt.State, verb rune) { format(f, verb, u.String()) }

// MarshalText encodes the address without its password.
func (u DatabaseURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// LogValue logs the address without its password.
func (u DatabaseURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

const sqliteScheme = "sqlite:"

func (u DatabaseURL) isPostgres() bool {
	return strings.HasPrefix(string(u), "postgres://") || strings.HasPrefix(string(u), "postgresql://")
}

// format writes a text the way %s, %q and %#v would, whatever the verb.
func format(f fmt.State, verb rune, text string) {
	if verb == 'q' || (verb == 'v' && f.Flag('#')) {
		text = strconv.Quote(text)
	}
	// A fmt.State has nobody to give a write error to.
	_, _ = io.WriteString(f, text)
}

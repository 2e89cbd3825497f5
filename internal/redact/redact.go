// Package redact takes credentials out of what goes into a log: values whose
// name says that they are one, and texts that have the form of a known key.
// It is the last line of defence for text that nobody has checked. Where the
// credential itself is known, comparing with it is better.
package redact

import (
	"regexp"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

// Mark stands where a credential was.
const Mark = "[redacted]"

// JSON returns a JSON text without the credentials in it. Texts inside that are
// JSON themselves, such as the arguments of a model's function call, are
// treated the same way. Other text is treated as Text.
func JSON(text []byte) []byte {
	v, err := jsontree.Parse(text)
	if err != nil {
		return []byte(Text(string(text)))
	}
	out, err := jsontree.Encode(value(v))
	if err != nil {
		return []byte(Mark) // a text that cannot be checked is not shown
	}
	return out
}

func value(v any) any {
	switch v := v.(type) {
	case string:
		return embedded(v)
	case []any:
		for i := range v {
			v[i] = value(v[i])
		}
	case *jsontree.Object:
		for _, name := range v.Names() {
			v.Set(name, member(name, v.Get(name)))
		}
	}
	return v
}

// member is the value of a name. Empty values are kept: it helps to know that
// there was none.
func member(name string, v any) any {
	if v == nil || v == "" || !Sensitive(name) {
		return value(v)
	}
	return Mark
}

// embedded treats a text that is a JSON object or list as JSON.
func embedded(text string) string {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		if v, err := jsontree.Parse([]byte(trimmed)); err == nil {
			if out, err := jsontree.Encode(value(v)); err == nil {
				return string(out)
			}
		}
	}
	return Text(text)
}

// Sensitive reports whether a name is a usual one of credentials: password,
// api_key, accessToken, X-Auth-Token and so on. Counts of tokens, such as
// max_tokens, are not.
func Sensitive(name string) bool {
	plain := strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(name))
	for _, part := range []string{
		"password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey", "signingkey", "authorization",
		"cookie", "credential", "bearer", "signature",
	} {
		if strings.Contains(plain, part) {
			return true
		}
	}
	switch plain {
	case "auth", "pwd", "pass", "jwt", "otp", "pin", "sessionid", "sid":
		return true
	}
	return strings.HasSuffix(plain, "token")
}

// Text returns a text without the credentials in it: known keys, values that
// are assigned to a name of a credential, and passwords in addresses.
func Text(text string) string {
	text = known.ReplaceAllString(text, Mark)
	text = address.ReplaceAllString(text, "${1}"+Mark+"@")
	text = scheme.ReplaceAllStringFunc(text, func(found string) string {
		word, value, _ := strings.Cut(found, " ")
		if !strings.ContainsAny(value, "0123456789=") {
			return found // a sentence: "basic understanding"
		}
		return word + " " + Mark
	})
	return assigned.ReplaceAllString(text, "${1}${2}"+Mark)
}

var (
	// known are the forms of keys that vendors document.
	known = regexp.MustCompile(`\b(?:` + strings.Join([]string{
		`sk-[A-Za-z0-9_-]{12,}`, `[sr]k_(?:live|test)_[A-Za-z0-9]{10,}`, `whsec_[A-Za-z0-9+/=]{10,}`, `rf_[A-Za-z0-9_-]{12,}`,
		`gh[pousr]_[A-Za-z0-9]{20,}`, `github_pat_[A-Za-z0-9_]{20,}`, `glpat-[A-Za-z0-9_-]{12,}`, `xox[abeoprs]-[A-Za-z0-9-]{10,}`,
		`(?:AKIA|ASIA)[A-Z0-9]{16}`, `AIza[A-Za-z0-9_-]{30,}`, `ya29\.[A-Za-z0-9_-]{20,}`, `hf_[A-Za-z0-9]{20,}`, `pplx-[A-Za-z0-9]{20,}`,
		`jina_[A-Za-z0-9_-]{20,}`, `apify_api_[A-Za-z0-9]{20,}`, `ntn_[A-Za-z0-9]{20,}`, `npm_[A-Za-z0-9]{20,}`, `SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`,
		`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`,
	}, "|") + `)|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`)
	address  = regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://)[^\s/@"']+:[^\s/@"']+@`)
	scheme   = regexp.MustCompile(`(?i)\b(?:bearer|basic) [A-Za-z0-9._~+/=-]{6,}`)
	assigned = regexp.MustCompile(`(?i)(\b[\w.-]*(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|authorization|cookie|credential|token)\\?["']?)` +
		`(\s*[:=]\s*)(?:\\"[^"]*"|"(?:[^"\\]|\\.)*(?:"|\z)|'(?:[^'\\]|\\.)*(?:'|\z)|[^\s"',;&)}\]\[]+)`)
)

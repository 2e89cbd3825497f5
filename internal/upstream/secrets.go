package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
)

// Secrets are the forms of credentials that must not come back, should an
// upstream repeat what it was sent.
type Secrets []string

const redacted = "[redacted]"

// minSecret is the shortest text that is looked for: shorter ones occur by
// chance, and protect nothing.
const minSecret = 6

// Hide returns the forms in which an upstream may repeat some texts.
func Hide(texts ...string) Secrets {
	var forms Secrets
	for _, text := range texts {
		if len(text) < minSecret {
			continue
		}
		found := []string{text, url.QueryEscape(text), url.PathEscape(text), slashed(text), dotNET(text)}
		if quoted, err := json.Marshal(text); err == nil {
			found = append(found, strings.Trim(string(quoted), `"`))
		}
		for _, form := range found {
			if !slices.Contains(forms, form) {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// slashed is text in JSON as PHP writes it.
func slashed(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `/`, `\/`).Replace(text)
}

// dotNET is text in JSON as .NET writes it.
func dotNET(text string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		switch {
		case unit == '\\':
			b.WriteString(`\\`)
		case unit < ' ' || unit > '~' || strings.ContainsRune("\"&'+<>`", rune(unit)):
			fmt.Fprintf(&b, `\u%04X`, unit)
		default:
			b.WriteByte(byte(unit))
		}
	}
	return b.String()
}

// Redact takes the secrets out of a body. One without them is returned as it
// is: it may be large.
func (s Secrets) Redact(body []byte) []byte {
	for _, form := range s {
		if bytes.Contains(body, []byte(form)) {
			body = bytes.ReplaceAll(body, []byte(form), []byte(redacted))
		}
	}
	return body
}

// Scrub takes the secrets out of a failure.
func (s Secrets) Scrub(f *Failure) *Failure {
	f.Message = string(s.Redact([]byte(f.Message)))
	f.Data = s.Redact(f.Data)
	return f
}

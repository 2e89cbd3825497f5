package upstream

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
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
		forms = append(forms, text, url.QueryEscape(text), url.PathEscape(text))
		if quoted, err := json.Marshal(text); err == nil {
			forms = append(forms, strings.Trim(string(quoted), `"`))
		}
	}
	return forms
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

package configbased

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// secrets are the forms of a credential that must not come back, should an
// upstream repeat what it was sent.
type secrets []string

const redacted = "[redacted]"

// minSecret is the shortest text that is looked for: shorter ones occur by
// chance, and protect nothing.
const minSecret = 6

func secretsOf(c toolset.Credential) secrets {
	value := c.Value.Reveal()
	if len(value) < minSecret {
		return nil
	}
	forms := secrets{value}
	if quoted, err := json.Marshal(value); err == nil {
		forms = append(forms, strings.Trim(string(quoted), `"`))
	}
	forms = append(forms, url.QueryEscape(value), url.PathEscape(value))
	if c.Type == toolset.Basic {
		forms = append(forms, base64.StdEncoding.EncodeToString([]byte(c.Username+":"+value)))
	}
	return forms
}

func (s secrets) redact(body []byte) []byte {
	for _, form := range s {
		body = bytes.ReplaceAll(body, []byte(form), []byte(redacted))
	}
	return body
}

func (s secrets) scrub(f *tool.Failure) *tool.Failure {
	f.Message = string(s.redact([]byte(f.Message)))
	f.Data = s.redact(f.Data)
	return f
}

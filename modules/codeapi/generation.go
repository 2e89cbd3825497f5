package codeapi

import (
	"net/http"
	"strings"
)

// newestTimeout is the time limit, in milliseconds, that newer clients do not
// exceed unless their operator raises it; older ones send 60000 unless the
// model asks for something else.
const newestTimeout = 15_000

// phrases reports whether a program's caller is of the generation that hides
// answers with other statuses than 200 from the model. It is asked once, with
// the request that brings the program: continuations carry a token only.
//
// The User-Agent is the same in all generations. The credential tells them
// apart in one direction only: whoever comes without a key is not of the oldest,
// but a proxy may add a key for anybody. What a request holds decides then.
// Doubts are decided for the newer generation: older clients show the model
// everything in an answer of either kind.
func (c controller) phrases(r *http.Request, b codeProgramWithTools) bool {
	switch {
	case c.settings.Errors == ErrorsPhrases:
		return true
	case c.settings.Errors == ErrorsStatus, !strings.HasPrefix(r.UserAgent(), "LibreChat/"):
		return false
	}
	key := r.Header.Get("X-API-Key") != "" || strings.HasPrefix(r.Header.Get("Authorization"), "ApiKey ")
	return !key || r.Header.Get(headerExpectedProfile) != "" || r.Header.Get(headerRequest) != "" || b.newer()
}

// newer reports whether a request holds what clients that know a key of their
// own never send.
func (b codeProgramWithTools) newer() bool {
	for _, f := range b.Files {
		if f.StorageSessionID != "" || f.Kind != "" || f.ResourceID != "" {
			return true
		}
	}
	return b.Timeout > 0 && b.Timeout <= newestTimeout || first(b.Lang, b.Language) == "bash" ||
		len(b.RuntimeSessionHint) > 0 || len(b.WorkspaceInstanceID) > 0
}

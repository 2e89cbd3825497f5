package httpapi

import (
	"mime"
	"net/http"
	"strings"
)

// Download sets the headers of a file that a user brought: nothing that it
// holds is run as a page of this server. Pictures are shown, all else is saved.
func Download(h http.Header, name, kind string) {
	disposition := "attachment"
	if strings.HasPrefix(kind, "image/") && !strings.Contains(kind, "svg") {
		disposition = "inline"
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": name}))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
}

// PartStatuses are the answers to requests for a file besides 200: Range and
// If-None-Match are read as the HTTP standard says.
func PartStatuses() map[int]string {
	return map[int]string{
		http.StatusPartialContent:               "The part that the header Range asked for",
		http.StatusNotModified:                  "The client has it as it is, by the header If-None-Match",
		http.StatusRequestedRangeNotSatisfiable: "The file has no such part",
	}
}

// Package mediatype finds the media type of a file.
package mediatype

import (
	"mime"
	"net/http"
	"path"
	"strings"
)

// Of is the media type of a file: by its name, or else by its first bytes. What
// the uploader claims is ignored, because browsers would act on it.
func Of(name string, head []byte) string {
	if strings.EqualFold(path.Ext(name), ".parquet") {
		return Parquet
	}
	if byName := mime.TypeByExtension(path.Ext(name)); byName != "" {
		return byName
	}
	return http.DetectContentType(head)
}

// Parquet is the type of Parquet files, which no system's table has.
const Parquet = "application/vnd.apache.parquet"

// Sniff is how much of a file Of looks at.
const Sniff = 512

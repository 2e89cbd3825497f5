// Package mediatype says what files are.
package mediatype

import (
	"mime"
	"net/http"
	"path"
	"strings"
)

// Of is what a file is: by its name if that says it, by its beginning
// otherwise. What a client claims is not believed, since browsers would.
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

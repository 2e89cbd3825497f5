package httpapi

import (
	"encoding/base64"
	"strconv"

	"github.com/portico-run/portico/modules/internal/errs"
)

// Limits of a list's page.
const (
	DefaultPageSize = 50
	MaxPageSize     = 200
)

// PageQuery is the query of every list; embed it in an operation's input.
type PageQuery struct {
	Cursor string `query:"cursor" maxLength:"64" doc:"nextCursor of the page before; empty for the first"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"How many items at most"`
}

// Page is the data of every list.
type Page[T any] struct {
	Items      []T    `json:"items" nullable:"false"`
	NextCursor string `json:"nextCursor,omitempty" doc:"Set when there is more"`
}

// EncodeCursor hides a row number, so that clients do not count on its form.
func EncodeCursor(pk int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(pk, 36)))
}

// DecodeCursor reads a cursor; the empty one is zero.
func DecodeCursor(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		var pk int64
		if pk, err = strconv.ParseInt(string(b), 36, 64); err == nil && pk > 0 {
			return pk, nil
		}
	}
	return 0, errs.New(errs.Invalid, "The cursor is not valid.").Do("Use nextCursor of an earlier answer, or leave it out.").With(err)
}

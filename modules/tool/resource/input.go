package resource

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
)

// ErrInput is an argument that names no file.
var ErrInput = errs.New(errs.Invalid, "Invalid resource value.")

// fileID finds the id of a file in all of its spellings: alone, behind
// fileId://, @file: or files/, and anywhere in a text that does not run into
// it. See docs/wire/refly.md#files-in-arguments-and-results.
var fileID = regexp.MustCompile(`(?i)(?:^|[^a-z0-9])(df-[a-z0-9]+)`)

func idIn(text string) string {
	m := fileID.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return strings.ToLower(m[1])
}

func isURL(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// Inputs replaces the files that arguments name by what the schema asks for: a
// link, the content as text or base64, or a File. It returns ErrInput for a
// value that names no file of the caller's; a path of this server never is one.
// The format file asks for the content, also of what is behind a URL; egress is
// what may be reached beyond the public internet.
func (r *Resolver) Inputs(ctx context.Context, a actor.Actor, egress []netip.Prefix, schema json.RawMessage, arguments map[string]any) (map[string]any, error) {
	n := parse(schema)
	if !n.holds() {
		return arguments, nil
	}
	out, err := n.walk(arguments, "", false, func(v any, n node, path string, optional bool) (any, error) {
		address, id := fileOf(v)
		switch {
		case id != "":
			return r.file(ctx, a, id, n.Format, path)
		case address != "" && n.Format == "file":
			f, err := r.fetch(ctx, Origin{Egress: egress}, address)
			if err != nil {
				return nil, ErrInput.Do(fmt.Sprintf("%q: the file at this URL cannot be fetched. Give a URL of the public internet that answers with the file, or a Drive fileId.", path)).With(err)
			}
			return f, nil
		case address != "", optional && n.Format != "file":
			return v, nil
		}
		return nil, noFile(v, path)
	})
	if err != nil {
		return nil, err
	}
	resolved, _ := out.(map[string]any) // as it came
	return resolved, nil
}

// fileOf is what a value names: the address of a file, or the id of one of the
// caller's; both are empty where it names none.
func fileOf(v any) (address, id string) {
	text, _ := v.(string)
	if object, ok := v.(map[string]any); ok {
		text, _ = object["fileId"].(string)
	}
	if id = idIn(text); id == "" && isURL(text) {
		address = text
	}
	return address, id
}

func noFile(v any, path string) error {
	shown, err := json.Marshal(v)
	if err != nil || len(shown) > 200 {
		shown = []byte("…")
	}
	return ErrInput.Do(fmt.Sprintf("Invalid resource value for %q: %s. Provide a valid Drive fileId (df-xxx / fileId://df-xxx / @file:df-xxx) or a public URL (http/https).",
		path, shown))
}

// file is a file in the form that a tool takes.
func (r *Resolver) file(ctx context.Context, a actor.Actor, id, format, path string) (any, error) {
	if format == "url" {
		link, err := r.deps.Files.Link(ctx, a, id, 0)
		return link.URL, inputError(err, path, id)
	}
	f, content, err := r.deps.Files.Read(ctx, a, id, r.deps.Limit)
	if err != nil {
		return nil, inputError(err, path, id)
	}
	switch format {
	case "base64":
		return base64.StdEncoding.EncodeToString(content), nil
	case "", "text":
		if !utf8.Valid(content) {
			return nil, ErrInput.Do(fmt.Sprintf("%q: %s is %s, and not a text.", path, f.Name, f.Type))
		}
		return string(content), nil
	}
	return File{Name: f.Name, Type: f.Type, Content: content}, nil
}

// inputError is why a file cannot be used, in words for the caller.
func inputError(err error, path, id string) error {
	switch errs.CodeOf(err) {
	case "":
		return nil
	case errs.FileMissing:
		return ErrInput.Do(fmt.Sprintf("%q: there is no file %s of yours.", path, id))
	case errs.TooLarge:
		return ErrInput.Do(fmt.Sprintf("%q: the file %s is too large for a tool.", path, id))
	}
	return err
}

package resource

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/drive"
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
	in := incoming{Resolver: r, actor: a, egress: egress}
	out, err := n.walk(arguments, "", false, func(v any, n node, path string, optional bool) (any, error) {
		address, id := fileOf(v)
		switch {
		case id != "":
			return in.file(ctx, id, n.Format, path)
		case address != "" && n.Format == "file":
			return in.web(ctx, address, path)
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

// incoming is the files of one call on their way in. They are in memory together until
// the call is over.
type incoming struct {
	*Resolver

	actor  actor.Actor
	egress []netip.Prefix
	bytes  int64
}

// keep counts a file of so many bytes, before it is read where that is known.
func (in *incoming) keep(ctx context.Context, bytes int64, path string) error {
	if in.bytes += bytes; in.bytes > in.deps.Together {
		return in.tooMuch(path)
	}
	return budget.Keep(ctx, bytes)
}

func (in *incoming) tooMuch(path string) error {
	return ErrInput.Do(fmt.Sprintf("%q: the files of one call may have %d bytes together, and with this one they have more. Give each call fewer files, or smaller ones.",
		path, in.deps.Together))
}

// web is the file at an address.
func (in *incoming) web(ctx context.Context, address, path string) (any, error) {
	limit := min(in.deps.Limit, in.deps.Together-in.bytes)
	f, err := in.fetch(ctx, Origin{Egress: in.egress}, address, limit)
	switch {
	case errors.Is(err, errLonger) && limit < in.deps.Limit:
		return nil, in.tooMuch(path)
	case err != nil:
		return nil, ErrInput.Do(fmt.Sprintf("%q: the file at this URL cannot be fetched. Give a URL of the public internet that answers with the file, or a Drive fileId.", path)).With(err)
	}
	return f, in.keep(ctx, int64(len(f.Content)), path)
}

// file is a file in the form that a tool takes.
func (in *incoming) file(ctx context.Context, id, format, path string) (any, error) {
	if format == "url" {
		link, err := in.deps.Files.Link(ctx, in.actor, id, 0)
		return link.URL, inputError(err, path, id)
	}
	f, body, err := in.deps.Files.Open(ctx, in.actor, id)
	if err != nil {
		return nil, inputError(err, path, id)
	}
	defer func() { _ = body.Close() }() // it was only read
	if f.Size > in.deps.Limit {
		return nil, inputError(drive.ErrTooLarge, path, id)
	}
	if err := in.keep(ctx, f.Size, path); err != nil {
		return nil, err
	}
	content, err := read(body, f.Size)
	if err != nil {
		return nil, err
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

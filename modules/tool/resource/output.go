package resource

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/internal/mediatype"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/drive"
)

// Temporary is a file of a call without a canvas. It can be fetched for a day.
type Temporary struct {
	Temporary bool      `json:"temporary"`
	Name      string    `json:"name"`
	Type      string    `json:"type"`
	Size      int       `json:"size"`
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// life is how long temporary files are kept.
const life = 24 * time.Hour

// Keep stores a file that a tool returned, in the canvas of the call or, where
// none is known, for a while. It returns the description of the file.
func (r *Resolver) Keep(ctx context.Context, a actor.Actor, o Origin, f File) (any, error) {
	if f.Type == "" || f.Type == "application/octet-stream" {
		f.Type = http.DetectContentType(f.Content)
	}
	if f.Name == "" {
		f.Name = o.Title + extension(f.Type)
	}
	name := drive.CleanName(f.Name)
	if o.Call.CanvasID != "" {
		of := o.run()
		saved, err := r.deps.Files.Save(ctx, a, drive.Content{
			CanvasID: o.Call.CanvasID, Name: name, Body: bytes.NewReader(f.Content), Source: drive.Agent, ResultID: of.ResultID, Version: of.Version,
		})
		if err != nil {
			return nil, err
		}
		return r.deps.Files.Describe(a.UID, saved), nil
	}
	name = o.free(name)
	if err := r.deps.Objects.Put(ctx, temporaryKey(a.UID, o.Call.CallID, o.Call.CreatedAt, name), bytes.NewReader(f.Content), f.Type); err != nil {
		return nil, err
	}
	return Temporary{
		Temporary: true, Name: name, Type: f.Type, Size: len(f.Content), ExpiresAt: o.Call.CreatedAt.Add(life).Truncate(time.Second),
		URL: r.deps.Endpoint + "/v1/tool/call/file?toolCallId=" + url.QueryEscape(o.Call.CallID) + "&name=" + url.QueryEscape(name),
	}, nil
}

// free is a name that no temporary file of the call has, and takes it.
func (o Origin) free(name string) string {
	first := name
	for n := 2; o.Names[name]; n++ {
		name = drive.CleanName(fmt.Sprintf("%d-%s", n, first)) // in front, where a long name is not cut
	}
	o.Names[name] = true
	return name
}

// temporaryKey begins with the second in which the file expires.
func temporaryKey(uid, callID string, created time.Time, name string) string {
	return path.Join("temporary", strconv.FormatInt(created.Add(life).Unix(), 10), uid, callID, name)
}

// ErrGone is a temporary file that is not there, or not any more.
var ErrGone = errors.New("there is no such temporary file")

// Open returns a temporary file of a call. It returns ErrGone.
func (r *Resolver) Open(ctx context.Context, a actor.Actor, callID string, created time.Time, name string) (File, error) {
	if name != drive.CleanName(name) || !r.deps.Now().Before(created.Add(life)) {
		return File{}, ErrGone
	}
	content, err := objectstore.Read(ctx, r.deps.Objects, temporaryKey(a.UID, callID, created, name), r.deps.Limit)
	if errors.Is(err, objectstore.ErrNotFound) {
		return File{}, ErrGone
	}
	return File{Name: name, Type: mediatype.Of(name, content), Content: content}, err
}

// Purge deletes the temporary files of all users that are over.
func (r *Resolver) Purge(ctx context.Context) error {
	keys, err := r.deps.Objects.List(ctx, "temporary/")
	if err != nil {
		return err
	}
	for _, key := range keys {
		parts := strings.SplitN(key, "/", 3)
		expires, err := strconv.ParseInt(parts[1], 10, 64)
		if err == nil && r.deps.Now().Unix() < expires {
			continue
		}
		if err := r.deps.Objects.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// Outputs replaces the files in a result by their descriptions, which it also
// returns as a list. A file that cannot be kept stays as it was; why is in
// problems.
func (r *Resolver) Outputs(ctx context.Context, a actor.Actor, o Origin, schema, data json.RawMessage) (out json.RawMessage, files []any, problems []error) {
	n := parse(schema)
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	stored := o.Stored && bytes.Contains(data, []byte(`"s3url"`))
	if (!n.holds() && !stored) || d.Decode(&v) != nil {
		return data, nil, nil
	}
	if o.Names == nil {
		o.Names = map[string]bool{}
	}
	put := func(v any, n node, path string, _ bool) (any, error) {
		f, found, err := r.output(ctx, o, v, n)
		var kept any
		if err == nil && found {
			kept, err = r.Keep(ctx, a, o, f)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", path, err))
		}
		if err != nil || !found {
			return v, nil //nolint:nilerr // it is among the problems, and the value stays
		}
		files = append(files, kept)
		return kept, nil
	}
	v, err := n.walk(v, "", false, put)
	if err == nil && stored {
		v, err = walkStored(v, "", put)
	}
	if err == nil && len(files) > 0 {
		out, err = json.Marshal(v)
	}
	if err != nil || len(files) == 0 {
		return data, files, problems
	}
	return out, files, problems
}

// walkStored replaces every object that says where its file is stored.
func walkStored(v any, path string, with convert) (any, error) {
	var err error
	switch v := v.(type) {
	case []any:
		for i := range v {
			if v[i], err = walkStored(v[i], fmt.Sprintf("%s[%d]", path, i), with); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		if _, ok := v["s3url"].(string); ok {
			return with(v, node{}, path, false)
		}
		for name := range v {
			if v[name], err = walkStored(v[name], join(path, name), with); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// stored is the file that an object with a member s3url describes.
func (r *Resolver) stored(ctx context.Context, o Origin, object map[string]any) (f File, found bool, err error) {
	address, _ := object["s3url"].(string)
	if o.Call.CanvasID == "" || !isURL(address) {
		return f, false, nil
	}
	if f, err = r.fetch(ctx, o, address, r.deps.Limit); err != nil {
		return f, true, err
	}
	if kind, ok := object["mimetype"].(string); ok && kind != "" {
		f.Type = kind
	}
	if name, ok := object["name"].(string); ok && name != "" {
		f.Name = name
	}
	return f, true, nil
}

// output is the file that a value of a result is. A link is fetched where the
// file has a place to stay; otherwise it is as good as the file.
func (r *Resolver) output(ctx context.Context, o Origin, v any, n node) (f File, found bool, err error) {
	if object, ok := v.(map[string]any); ok {
		if _, ok := object["s3url"]; ok && o.Stored {
			return r.stored(ctx, o, object)
		}
		encoded, _ := object["buffer"].(string)
		kind, _ := object["mimetype"].(string)
		if encoded == "" {
			return f, false, nil
		}
		f, err = decode(encoded, kind)
		f.Name, _ = object["name"].(string)
		return f, true, err
	}
	text, ok := v.(string)
	switch {
	case !ok || text == "":
		return f, false, nil
	case isURL(text):
		if o.Call.CanvasID == "" {
			return f, false, nil
		}
		f, err = r.fetch(ctx, o, text, r.deps.Limit)
		return f, true, err
	case strings.HasPrefix(text, "data:"):
		head, body, _ := strings.Cut(strings.TrimPrefix(text, "data:"), ",")
		kind, isBase64 := strings.CutSuffix(head, ";base64")
		if !isBase64 {
			plain, err := url.PathUnescape(body)
			return File{Type: kind, Content: []byte(plain)}, true, err
		}
		f, err = decode(body, kind)
		return f, true, err
	case n.Format == "base64":
		f, err = decode(text, "")
		return f, true, err
	case n.Format == "text":
		return File{Type: "text/plain; charset=utf-8", Content: []byte(text)}, true, nil
	}
	return f, false, nil
}

func decode(text, kind string) (File, error) {
	content, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		content, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(text), "="))
	}
	return File{Type: kind, Content: content}, err
}

// fetch gets a file of at most limit bytes from an address that arguments or a result
// name. No credential goes there.
func (r *Resolver) fetch(ctx context.Context, o Origin, address string, limit int64) (File, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return File{}, err
	}
	req.Header.Set("User-Agent", "portico")
	resp, err := r.deps.Client.Do(req, o.Egress)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return File{}, fmt.Errorf("the file's address answered %s", resp.Status)
	}
	size := resp.ContentLength
	if size < 0 {
		size = limit
	}
	if err := budget.Take(ctx, min(size, limit)); err != nil {
		return File{}, err
	}
	content, err := read(resp.Body, limit)
	if err != nil {
		return File{}, err
	}
	f := File{Type: resp.Header.Get("Content-Type"), Content: content}
	if ext := path.Ext(req.URL.Path); len(ext) > 1 && len(ext) <= 8 {
		f.Name = o.Title + ext
	}
	return f, nil
}

// extension is the usual ending of names of a type.
func extension(kind string) string {
	plain, _, err := mime.ParseMediaType(kind)
	if err != nil {
		return ".bin"
	}
	usual := map[string]string{
		"image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp", "video/mp4": ".mp4", "audio/mpeg": ".mp3",
		"audio/wave": ".wav", "audio/wav": ".wav", "application/pdf": ".pdf", "application/json": ".json", "text/plain": ".txt", "text/csv": ".csv",
		"text/html": ".html", "application/zip": ".zip",
	}
	if ext, known := usual[plain]; known {
		return ext
	}
	if list, err := mime.ExtensionsByType(plain); err == nil && len(list) > 0 {
		return list[0]
	}
	return ".bin"
}

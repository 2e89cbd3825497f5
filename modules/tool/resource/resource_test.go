package resource_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool/resource"
)

var anna, ben = actor.Actor{UID: "u-anna"}, actor.Actor{UID: "u-ben"}

// files are anna's: df-text and df-cat.
type files struct {
	saved []drive.Content
	read  int64 // bytes
}

func (f *files) Open(_ context.Context, a actor.Actor, id string) (drive.File, io.ReadSeekCloser, error) {
	content := map[string]string{"df-text": "héllo", "df-cat": "\x89PNG\xff"}[id]
	if a != anna || content == "" {
		return drive.File{}, nil, drive.ErrMissing
	}
	return drive.File{FileID: id, Name: id + ".x", Type: "image/png", Size: int64(len(content))}, &opened{strings.NewReader(content), f}, nil
}

// opened is a file that is read.
type opened struct {
	*strings.Reader

	files *files
}

func (o *opened) Read(p []byte) (int, error) {
	n, err := o.Reader.Read(p)
	o.files.read += int64(n)
	return n, err
}

func (*opened) Close() error { return nil }

func (f *files) Link(_ context.Context, a actor.Actor, id string, _ time.Duration) (drive.Link, error) {
	if a != anna {
		return drive.Link{}, drive.ErrMissing
	}
	return drive.Link{URL: "https://portico/" + id}, nil
}

func (f *files) Save(_ context.Context, _ actor.Actor, c drive.Content) (drive.File, error) {
	if strings.Contains(c.Name, "full") {
		return drive.File{}, drive.ErrFull
	}
	f.saved = append(f.saved, c)
	content, err := io.ReadAll(c.Body)
	return drive.File{FileID: "df-new", Name: c.Name, Size: int64(len(content)), CanvasID: c.CanvasID}, err
}

func (f *files) Describe(_ string, file drive.File) drive.DriveFile {
	return drive.DriveFile{FileID: file.FileID, Name: file.Name, Size: file.Size}
}

// web answers every address with its path.
type web struct{ asked []*http.Request }

func (w *web) Do(r *http.Request, _ []netip.Prefix) (*http.Response, error) {
	w.asked = append(w.asked, r)
	if strings.Contains(r.URL.Path, "broken") {
		return nil, errors.New("broken")
	}
	status := 200
	if strings.Contains(r.URL.Path, "gone") {
		status = 404
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {"image/png"}}, Body: io.NopCloser(strings.NewReader(r.URL.Path))}, nil
}

type fixture struct {
	*resource.Resolver
	objects objectstore.Store
	files   *files
	web     *web
	now     time.Time
}

func setup(t *testing.T) *fixture { return limited(t, 100) }

// limited is a fixture whose largest file has limit bytes.
func limited(t *testing.T, limit int64) *fixture {
	t.Helper()
	objects, err := objectstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	f := &fixture{objects: objects, files: &files{}, web: &web{}, now: time.Now()}
	f.Resolver = resource.New(resource.Deps{
		Files: f.files, Client: f.web, Objects: objects, Limit: limit, Together: 2 * limit, Endpoint: "https://portico", Now: func() time.Time { return f.now },
	})
	return f
}

const schema = `{"type":"object","properties":{
	"text":{"type":"string","isResource":true},"base":{"type":"string","isResource":true,"format":"base64"},"url":{"isResource":true,"format":"url"},
	"bin":{"isResource":true,"format":"binary"},"list":{"type":"array","items":{"type":"object","properties":{"image":{"isResource":true,"format":"url"}}}},
	"many":{"type":"array","isResource":true,"items":{"type":"string"}},"file":{"isResource":true,"format":"file"},
	"maybe":{"oneOf":[{"type":"string","isResource":true},{"type":"number"}]},"plain":{"type":"string"}}}`

func TestInputs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for arguments, want := range map[string]string{
		`{"plain":"df-text","text":null}`:                                `{"plain":"df-text","text":null}`,
		`{"text":"df-text"}`:                                             `{"text":"héllo"}`,
		`{"text":"fileId://DF-TEXT"}`:                                    `{"text":"héllo"}`,
		`{"text":"@file:df-text"}`:                                       `{"text":"héllo"}`,
		`{"text":"files/df-text"}`:                                       `{"text":"héllo"}`,
		`{"text":{"fileId":"df-text"}}`:                                  `{"text":"héllo"}`,
		`{"text":"see [a](https://portico/content/df-text/x)"}`:          `{"text":"héllo"}`,
		`{"url":"https://example.com/cat.png"}`:                          `{"url":"https://example.com/cat.png"}`,
		`{"url":"https://portico/v1/drive/file/content/df-cat/cat.png"}`: `{"url":"https://portico/df-cat"}`,
		`{"base":"df-cat","bin":"df-cat"}`:                               `{"base":"iVBOR/8=","bin":"iVBOR/8="}`,
		`{"list":[{"image":"df-cat","n":1},{"n":2}]}`:                    `{"list":[{"image":"https://portico/df-cat","n":1},{"n":2}]}`,
		`{"many":["df-text","https://x/y"]}`:                             `{"many":["héllo","https://x/y"]}`,
		`{"maybe":7}`:                                                    `{"maybe":7}`,
		`{"maybe":"df-text"}`:                                            `{"maybe":"héllo"}`,
		`{"maybe":"other"}`:                                              `{"maybe":"other"}`,
	} {
		var in map[string]any
		require.NoError(t, json.Unmarshal([]byte(arguments), &in))
		out, err := f.Inputs(t.Context(), anna, nil, json.RawMessage(schema), in)
		require.NoError(t, err, arguments)
		got, err := json.Marshal(out)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got), arguments)
	}
	for arguments, want := range map[string]string{
		`{"text":"/etc/passwd"}`:    `Invalid resource value for "text": "/etc/passwd". Provide a valid Drive fileId (df-xxx / fileId://df-xxx / @file:df-xxx) or a public URL (http/https).`,
		`{"text":"xdf-text"}`:       `Invalid resource value for "text": "xdf-text".`,
		`{"text":7}`:                `Invalid resource value for "text": 7.`,
		`{"text":"df-none"}`:        `"text": there is no file df-none of yours.`,
		`{"text":"df-cat"}`:         `"text": df-cat.x is image/png, and not a text.`,
		`{"list":[{"image":true}]}`: `Invalid resource value for "list[0].image": true.`,
	} {
		var in map[string]any
		require.NoError(t, json.Unmarshal([]byte(arguments), &in))
		_, err := f.Inputs(t.Context(), anna, nil, json.RawMessage(schema), in)
		require.ErrorIs(t, err, resource.ErrInput, arguments)
		e, _ := errors.AsType[*errs.Error](err)
		require.Contains(t, e.Detail, want)
	}
	_, err := f.Inputs(t.Context(), ben, nil, json.RawMessage(schema), map[string]any{"text": "df-text"})
	require.ErrorIs(t, err, resource.ErrInput, "the file is another user's")
	_, err = limited(t, 3).Inputs(t.Context(), anna, nil, json.RawMessage(schema), map[string]any{"text": "df-text"})
	require.ErrorIs(t, err, resource.ErrInput)
}

// Files that go into one call are in memory together: they count as one, and no more of
// them are read than there may be.
func TestFilesOfACallCountTogether(t *testing.T) {
	t.Parallel()
	f := limited(t, 10)
	few := map[string]any{"many": []any{"df-text", "df-text", "df-text"}, "file": "https://x/y"}
	memory := budget.New(100, 25)
	ctx, hold := memory.Open(t.Context(), anna.UID)
	defer hold.Release()
	_, err := f.Inputs(ctx, anna, nil, json.RawMessage(schema), few)
	require.NoError(t, err)
	other, second := memory.Open(t.Context(), anna.UID)
	defer second.Release()
	other, cancel := context.WithTimeout(other, 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, budget.Take(other, 7), context.DeadlineExceeded, "18 bytes of files, and 2 of the web, are taken")

	for _, arguments := range []map[string]any{
		{"many": slices.Repeat([]any{"df-text"}, 1_000)},
		{"many": []any{"df-text", "df-text", "df-text"}, "file": "https://x/longer"},
	} {
		f.files.read = 0
		_, err = f.Inputs(t.Context(), anna, nil, json.RawMessage(schema), arguments)
		require.ErrorIs(t, err, resource.ErrInput)
		e, _ := errors.AsType[*errs.Error](err)
		require.Contains(t, e.Detail, "the files of one call may have 20 bytes together")
		require.LessOrEqual(t, f.files.read, int64(20))
	}
}

const answers = `{"type":"object","properties":{"images":{"type":"array","items":{"type":"object","properties":{"url":{"type":"string","isResource":true}}}},
	"audio":{"isResource":true,"format":"base64"},"note":{"isResource":true,"format":"text"},"blob":{"isResource":true},"n":{"type":"integer"}}}`

func TestOutputs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	from := resource.Origin{Call: record.Call{CallID: "ptc:1", CreatedAt: f.now, CanvasID: "c-1", ResultID: "ar-1"}, Title: "A cat"}
	png := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n0000"))
	data := `{"images":[{"url":"https://cdn/a.webp","w":12345678901234567890},{"url":"https://cdn/gone.png"},{"url":"https://cdn/broken"}],
		"audio":"` + png + `","note":"some words","blob":{"buffer":"` + png + `","mimetype":"image/png"},"n":1}`
	out, kept, problems := f.Outputs(t.Context(), anna, from, json.RawMessage(answers), json.RawMessage(data))
	require.Len(t, kept, 4)
	require.Len(t, problems, 2)
	var got map[string]any
	require.NoError(t, json.Unmarshal(out, &got))
	images := got["images"].([]any)
	require.Equal(t, "A cat.webp", images[0].(map[string]any)["url"].(map[string]any)["name"], "a file is described in place")
	require.Contains(t, string(out), "12345678901234567890")
	require.Equal(t, "https://cdn/gone.png", images[1].(map[string]any)["url"], "what cannot be kept stays")
	names := map[string]bool{}
	for _, c := range f.files.saved {
		names[c.Name] = true
		require.Equal(t, "ar-1", c.ResultID)
	}
	require.Equal(t, map[string]bool{"A cat.webp": true, "A cat.png": true, "A cat.txt": true}, names)
	require.Empty(t, f.web.asked[0].Header.Get("Authorization"))

	same, kept, problems := f.Outputs(t.Context(), anna, from, json.RawMessage(`{"type":"object"}`), json.RawMessage(data))
	require.JSONEq(t, data, string(same))
	require.Empty(t, kept)
	require.Empty(t, problems)
	list, kept, _ := f.Outputs(t.Context(), anna, from, json.RawMessage(`{"type":"array","items":{"isResource":true}}`), json.RawMessage(`["data:text/plain,a%20b", 5]`))
	require.Len(t, kept, 1)
	require.Contains(t, string(list), `"name":"A cat.txt"`)
}

// Without a canvas a file is kept for a day, for its own user; links stay.
func TestTemporaryFiles(t *testing.T) {
	t.Parallel()
	f := setup(t)
	from := resource.Origin{Call: record.Call{CallID: "standalone:1", CreatedAt: f.now, ResultID: run.NoResult}, Title: "../Song"}
	out, kept, problems := f.Outputs(t.Context(), anna, from, json.RawMessage(answers), json.RawMessage(`{"audio":"aGk=","images":[{"url":"https://cdn/a.png"}]}`))
	require.Empty(t, problems)
	require.Len(t, kept, 1)
	require.Contains(t, string(out), `"url":"https://cdn/a.png"`)
	file := kept[0].(resource.Temporary)
	require.Equal(t, "..-Song.txt", file.Name)
	require.Equal(t, "https://portico/v1/tool/call/file?toolCallId=standalone%3A1&name=..-Song.txt", file.URL)
	got, err := f.Open(t.Context(), anna, from.Call.CallID, from.Call.CreatedAt, file.Name)
	require.NoError(t, err)
	require.Equal(t, "hi", string(got.Content))
	for _, name := range []string{"other", "../" + file.Name, ""} {
		_, err = f.Open(t.Context(), anna, from.Call.CallID, from.Call.CreatedAt, name)
		require.ErrorIs(t, err, resource.ErrGone)
	}
	_, err = f.Open(t.Context(), ben, from.Call.CallID, from.Call.CreatedAt, file.Name)
	require.ErrorIs(t, err, resource.ErrGone)
	require.NoError(t, f.Purge(t.Context()))
	_, err = f.Open(t.Context(), anna, from.Call.CallID, from.Call.CreatedAt, file.Name)
	require.NoError(t, err)
	f.now = f.now.Add(25 * time.Hour)
	_, err = f.Open(t.Context(), anna, from.Call.CallID, from.Call.CreatedAt, file.Name)
	require.ErrorIs(t, err, resource.ErrGone)
	require.NoError(t, f.Purge(t.Context()))
	keys, err := f.objects.List(t.Context(), "temporary/")
	require.NoError(t, err)
	require.Empty(t, keys)
}

// Temporary files of one call have names of their own, however long they are.
func TestTemporaryFilesOfACallAreApart(t *testing.T) {
	t.Parallel()
	for _, title := range []string{"Song", strings.Repeat("long", 100)} {
		f := setup(t)
		from := resource.Origin{Call: record.Call{CallID: "standalone:1", CreatedAt: f.now, ResultID: run.NoResult}, Title: title}
		_, kept, problems := f.Outputs(t.Context(), anna, from, json.RawMessage(`{"type":"array","items":{"isResource":true,"format":"text"}}`),
			json.RawMessage(`["one", "two", "three"]`))
		require.Empty(t, problems)
		require.Len(t, kept, 3)
		for i, content := range []string{"one", "two", "three"} {
			got, err := f.Open(t.Context(), anna, from.Call.CallID, from.Call.CreatedAt, kept[i].(resource.Temporary).Name)
			require.NoError(t, err)
			require.Equal(t, content, string(got.Content))
		}
	}
}

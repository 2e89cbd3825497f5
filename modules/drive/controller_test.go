package drive_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/drive"
)

// users are known by keys that are their ids.
type users struct{}

func (users) Authenticate(_ context.Context, c httpapi.Credentials) (actor.Actor, error) {
	return actor.Actor{UID: c.APIKey, Scope: actor.Full}, nil
}

// served is the module behind the server's routes.
func (f *fixture) served() http.Handler {
	api := httpapi.New(httpapi.Deps{Auth: users{}, Logger: slog.New(slog.DiscardHandler), BodyLimit: 1 << 20})
	(&drive.Module{Service: f.Service}).Register(api)
	return api
}

func ask(t *testing.T, api http.Handler, who actor.Actor, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	r.Header.Set("X-Api-Key", who.UID)
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w
}

func request(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// part is one of a form; one without a file name is a field.
type part struct{ field, file, content string }

func form(t *testing.T, parts ...part) *http.Request {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		out, err := w.CreateFormField(p.field)
		if p.file != "" {
			out, err = w.CreateFormFile(p.field, p.file)
		}
		require.NoError(t, err)
		_, err = io.WriteString(out, p.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/drive/file/upload", &b)
	r.Header.Set("Content-Type", w.FormDataContentType())
	return r
}

func data[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	require.Equal(t, 200, w.Code, w.Body.String())
	var answer struct{ Data T }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), w.Body.String())
	return answer.Data
}

func TestAFileOverItsRoutes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := setup(t, db)
		api := f.served()
		sent := data[drive.DriveFile](t, ask(t, api, anna, form(t, part{"canvasId", "", anna.UID}, part{"note", "", "ignored"}, part{"file", "a b.txt", "hello"})))
		require.Equal(t, "a b.txt", sent.Name)
		require.Equal(t, int64(5), sent.Size)
		require.Equal(t, drive.Manual, sent.Source)
		require.Equal(t, "http://portico/v1/drive/file/content/"+sent.FileID+"/a%20b.txt", sent.URL)
		require.Nil(t, sent.Table)
		require.Nil(t, sent.ResultVersion)
		made := f.save(t, anna, "made.txt", "by a run", false)
		csv := data[drive.DriveFile](t, ask(t, api, anna, form(t, part{"canvasId", "", anna.UID}, part{"file", "t.csv", "a,b\n1,2\n3,4\n"})))
		require.Equal(t, "t.parquet", csv.Name)
		require.NotNil(t, csv.Table)

		list := data[httpapi.Page[drive.DriveFile]](t, ask(t, api, anna, request(t, "GET", "/v1/drive/file/list?canvasId="+anna.UID, "")))
		require.Len(t, list.Items, 3)
		require.Equal(t, made.FileID, list.Items[1].FileID)
		require.Equal(t, 2, *list.Items[1].ResultVersion)

		for _, path := range []string{"/v1/drive/file/content/" + sent.FileID, "/v1/drive/file/content/" + sent.FileID + "/any-name"} {
			w := ask(t, api, anna, request(t, "GET", path, ""))
			require.Equal(t, "hello", w.Body.String())
			require.Equal(t, `attachment; filename="a b.txt"`, w.Header().Get("Content-Disposition"))
			require.Equal(t, "private, no-cache", w.Header().Get("Cache-Control"))
			r := request(t, "GET", path, "")
			r.Header.Set("Range", "bytes=1-2")
			require.Equal(t, "el", ask(t, api, anna, r).Body.String())
			r = request(t, "GET", path, "")
			r.Header.Set("If-None-Match", w.Header().Get("ETag"))
			require.Equal(t, http.StatusNotModified, ask(t, api, anna, r).Code)
			require.Equal(t, http.StatusNotFound, ask(t, api, ben, request(t, "GET", path, "")).Code)
		}

		link := data[struct {
			URL       string    `json:"url"`
			ExpiresAt time.Time `json:"expiresAt"`
		}](t, ask(t, api, anna, request(t, "POST", "/v1/drive/file/presign", `{"fileId":"`+sent.FileID+`","expiresIn":60}`)))
		require.Equal(t, f.now.Add(time.Minute).Truncate(time.Second), link.ExpiresAt.Local().In(f.now.Location()))
		u, err := url.Parse(link.URL)
		require.NoError(t, err)
		require.Equal(t, "hello", ask(t, api, actor.Actor{}, request(t, "GET", u.RequestURI(), "")).Body.String(), "a link needs no credential")
		require.Equal(t, http.StatusUnauthorized, ask(t, api, anna, request(t, "GET", "/v1/drive/file/shared?token=x", "")).Code)
		require.Equal(t, http.StatusNotFound, ask(t, api, ben, request(t, "POST", "/v1/drive/file/presign", `{"fileId":"`+sent.FileID+`"}`)).Code)

		remove := func(who actor.Actor) int {
			return ask(t, api, who, request(t, "POST", "/v1/drive/file/delete", `{"fileId":"`+sent.FileID+`"}`)).Code
		}
		require.Equal(t, http.StatusNotFound, remove(ben))
		require.Equal(t, 200, remove(anna))
		require.Equal(t, http.StatusNotFound, remove(anna))
	})
}

func TestUploadsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := setup(t, databasetest.Open(t, database.SQLite, nil))
	api := f.served()
	canvas, file := part{"canvasId", "", anna.UID}, part{"file", "a.txt", "hello"}
	broken := form(t, canvas, file)
	whole, err := io.ReadAll(broken.Body)
	require.NoError(t, err)
	broken.Body = io.NopCloser(bytes.NewReader(whole[:bytes.Index(whole, []byte("hello"))+2]))
	plain := request(t, "POST", "/v1/drive/file/upload", "{}")
	for name, c := range map[string]struct {
		r      *http.Request
		status int
		says   string
	}{
		"no form":         {plain, 415, "not multipart/form-data"},
		"a broken form":   {broken, 400, "cannot be read"},
		"no file":         {form(t, canvas), 400, "No file was sent."},
		"no canvas":       {form(t, file), 400, "canvasId is missing."},
		"two files":       {form(t, canvas, file, file), 400, "More than one file was sent."},
		"another canvas":  {form(t, part{"canvasId", "", ben.UID}, file), 404, ""},
		"a large file":    {form(t, canvas, part{"file", "a.txt", strings.Repeat("x", 1001)}), 413, "It has 1001 bytes; files may have 1000."},
		"a larger upload": {form(t, canvas, part{"file", "a.txt", strings.Repeat("x", 100_000)}), 413, "An upload may have "},
	} {
		w := ask(t, api, anna, c.r)
		require.Equal(t, c.status, w.Code, "%s: %s", name, w.Body)
		require.Contains(t, w.Body.String(), c.says, name)
	}
	list := data[httpapi.Page[drive.DriveFile]](t, ask(t, api, anna, request(t, "GET", "/v1/drive/file/list", "")))
	require.Empty(t, list.Items, "nothing is kept of what was refused")
}

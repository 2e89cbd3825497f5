package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// driveFile is a file as the API describes it.
type driveFile struct {
	FileID, CanvasID, Name, Type, Category, Source, Summary, ResultID, StorageKey, URL string
	Size                                                                               int64
	Table                                                                              *struct {
		Rows, BadRows int64
		Bad           []struct {
			Line   int
			Reason string
		}
		Columns []struct{ Name, Type string }
	}
}

// canvas makes a canvas of the first user.
func (s *instance) canvas(title string) string {
	s.t.Helper()
	a := s.send(s.key, "POST", "/v1/canvas/create", map[string]string{"title": title})
	require.Equal(s.t, 200, a.status, a.raw)
	var c struct{ CanvasID string }
	require.NoError(s.t, json.Unmarshal(a.body.Data, &c))
	return c.CanvasID
}

// driveForm is an upload; its boundary is x.
func driveForm(canvas, name, content string) string {
	return fmt.Sprintf("--x\r\nContent-Disposition: form-data; name=\"file\"; filename=%q\r\n\r\n%s\r\n"+
		"--x\r\nContent-Disposition: form-data; name=\"canvasId\"\r\n\r\n%s\r\n--x--\r\n", name, content, canvas)
}

func (s *instance) uploadTo(key, canvas, name, content string) answer {
	s.t.Helper()
	return s.send(key, "POST", "/v1/drive/file/upload", driveForm(canvas, name, content), "Content-Type", "multipart/form-data; boundary=x")
}

// store uploads a file as the first user.
func (s *instance) store(canvas, name, content string) driveFile {
	s.t.Helper()
	a := s.uploadTo(s.key, canvas, name, content)
	require.Equal(s.t, 200, a.status, a.raw)
	var f driveFile
	require.NoError(s.t, json.Unmarshal(a.body.Data, &f))
	return f
}

func (s *instance) files(canvas string) []driveFile {
	s.t.Helper()
	a := s.send(s.key, "GET", "/v1/drive/file/list?limit=100&canvasId="+canvas, nil)
	require.Equal(s.t, 200, a.status, a.raw)
	var page struct{ Items []driveFile }
	require.NoError(s.t, json.Unmarshal(a.body.Data, &page))
	return page.Items
}

func TestDrive(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		canvas, ben := s.canvas("mine"), s.another("ben")
		f := s.store(canvas, "../Sales.csv", "day;amount\n2026-01-02;3\nbad\n")
		require.Equal(t, "Sales.parquet", f.Name)
		require.Equal(t, int64(1), f.Table.BadRows)
		require.Equal(t, 3, f.Table.Bad[0].Line)
		require.Equal(t, "date", f.Table.Columns[0].Type)
		require.Equal(t, "manual", f.Source)
		require.True(t, strings.HasPrefix(f.StorageKey, "drive/") && strings.HasSuffix(f.StorageKey, "/"+canvas+"/Sales.parquet"))
		require.Len(t, s.files(canvas), 1)

		path := "/v1/drive/file/content/" + f.FileID
		require.True(t, strings.HasSuffix(f.URL, path+"/Sales.parquet"), f.URL)
		a := s.send(s.key, "GET", path+"/Sales.parquet", nil)
		require.Equal(t, 200, a.status)
		require.True(t, strings.HasPrefix(a.raw, "PAR1"))
		require.Equal(t, "application/vnd.apache.parquet", a.header.Get("Content-Type"))
		require.Contains(t, a.header.Get("Content-Disposition"), "attachment")

		part := s.send(s.key, "GET", path, nil, "Range", "bytes=1-3")
		require.Equal(t, 206, part.status)
		require.Equal(t, "AR1", part.raw)
		require.Equal(t, "bytes", part.header.Get("Accept-Ranges"))
		require.Equal(t, 416, s.send(s.key, "GET", path, nil, "Range", "bytes=100000-").status)
		require.Equal(t, 304, s.send(s.key, "GET", path, nil, "If-None-Match", a.header.Get("ETag")).status)
		var link struct{ URL string }
		signed := s.send(s.key, "POST", "/v1/drive/file/presign", map[string]any{"fileId": f.FileID, "expiresIn": 60})
		require.NoError(t, json.Unmarshal(signed.body.Data, &link), signed.raw)
		_, query, _ := strings.Cut(link.URL, "?")
		require.True(t, strings.HasPrefix(s.send("", "GET", "/v1/drive/file/shared?"+query, nil).raw, "PAR1"), "a link needs no credential")
		require.Equal(t, 401, s.send("", "GET", "/v1/drive/file/shared?"+query+"x", nil).status)
		require.Equal(t, 404, s.send(ben, "POST", "/v1/drive/file/presign", map[string]any{"fileId": f.FileID}).status)
		require.NotContains(t, s.log.String(), query, "the link is in no log")

		page := s.store(canvas, "page.html", "<script>alert(1)</script>")
		a = s.send(s.key, "GET", "/v1/drive/file/content/"+page.FileID, nil)
		require.Contains(t, a.header.Get("Content-Security-Policy"), "sandbox")
		require.Contains(t, a.header.Get("Content-Disposition"), "attachment", "a page of a user's never opens in the server's origin")

		require.Equal(t, 404, s.send(ben, "GET", path, nil).status)
		require.Equal(t, 404, s.send(ben, "POST", "/v1/drive/file/delete", map[string]string{"fileId": f.FileID}).status)
		require.Equal(t, "E1000", s.uploadTo(ben, canvas, "x", "x").body.ErrCode)
		require.Equal(t, 413, s.uploadTo(s.key, canvas, "x", strings.Repeat("x", 2048)).status)
		require.Equal(t, "E2001", func() string {
			for n := 0; ; n++ {
				if a := s.uploadTo(s.key, canvas, "x", strings.Repeat("x", 1000)); a.status != 200 {
					return a.body.ErrCode
				}
			}
		}())
		require.Equal(t, 200, s.send(s.key, "POST", "/v1/drive/file/delete", map[string]string{"fileId": f.FileID}).status)
		require.Equal(t, 404, s.send(s.key, "GET", path, nil).status)
	}, "DRIVE_MAX_FILE=1KiB", "DRIVE_QUOTA=8KiB")
}

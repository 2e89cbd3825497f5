package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// studio is an upstream that draws and measures pictures.
func studio(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /draw", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		io.WriteString(w, "\x89PNG\r\n\x1a\nof a cat")
	})
	mux.HandleFunc("POST /measure", func(w http.ResponseWriter, r *http.Request) {
		f, head, err := r.FormFile("image")
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		content, err := io.ReadAll(f)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"name":%q,"type":%q,"bytes":%d,"error":%v}`, head.Filename, head.Header.Get("Content-Type"), len(content), err != nil)
	})
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return fmt.Sprintf(`
key: studio
name: Studio
domain: %s
egress: {allow: [127.0.0.0/8]}
billing: {draw: 3, measure: 1}
methods:
  - {name: draw, description: Draws., endpoint: /draw, request: {type: object, properties: {}}, response: {type: object}}
  - name: measure
    description: Measures a picture.
    endpoint: /measure
    adapter: {useFormData: true}
    request: {type: object, required: [image], properties: {image: {type: string, isResource: true, format: binary}}}
    response: {type: object}
`, web.URL)
}

// A tool's picture becomes a file of the canvas, which another tool takes by
// its id; both from a program, recorded and billed.
func TestFilesBetweenTools(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		s.apply(t, map[string]string{"studio.yaml": studio(t)})
		canvas := s.canvas("pictures")
		o := s.run(map[string]any{"canvasId": canvas, "toolsets": []string{"studio"}, "code": `
from refly_tools.studio import Studio
drawn = Studio.draw(file_name_title="My cat")
print(drawn["status"], drawn["data"]["name"], drawn["data"]["size"], drawn["files"][0]["fileId"] == drawn["data"]["fileId"])
print(Studio.measure(image="@file:" + drawn["data"]["fileId"], file_name_title="x")["data"])
print(Studio.measure(image="/etc/passwd", file_name_title="x")["error"])
`})
		require.Equal(t, "completed", o.Status, o.Stderr)
		require.Equal(t, "success My cat.png 16 True\n{'name': 'My cat.png', 'type': 'image/png', 'bytes': 16, 'error': False}\n"+
			"Invalid resource value for \"image\": \"/etc/passwd\". Provide a valid Drive fileId (df-xxx / fileId://df-xxx / @file:df-xxx) or a public URL (http/https).\n", o.Stdout)
		files := s.files(canvas)
		require.Len(t, files, 1)
		require.Equal(t, o.ResultID, files[0].ResultID)
		require.Equal(t, 2, s.count("SELECT count(*) FROM credit_usages WHERE action_result_id = ?", o.ResultID))
		record := s.send(s.key, "GET", "/v1/tool/call/result?toolCallId="+o.ToolCalls[1].CallID, nil)
		require.Contains(t, record.raw, `"image":"@file:df-`, "the record has what was said, not what it stood for")

		// Outside a canvas the file is there for a day.
		a := s.send(s.key, "POST", "/v1/tool/execute", `{"toolsetKey":"studio","toolName":"draw","arguments":{"file_name_title":"Loose"}}`)
		var answer struct {
			Data struct {
				Temporary bool
				Name, URL string
			}
		}
		require.NoError(t, json.Unmarshal(a.body.Data, &answer), a.raw)
		require.True(t, answer.Data.Temporary)
		_, path, _ := strings.Cut(answer.Data.URL, "/v1/")
		require.Equal(t, "\x89PNG\r\n\x1a\nof a cat", s.send(s.key, "GET", "/v1/"+path, nil).raw)
		require.Equal(t, 404, s.send(s.another("ben"), "GET", "/v1/"+path, nil).status)
	})
}

// A call outside of programs puts what it draws into the canvas that it names,
// which must be the caller's.
func TestCanvasOfACall(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		s.apply(t, map[string]string{"studio.yaml": studio(t)})
		canvas := s.canvas("pictures")
		const body = `{"toolsetKey":"studio","toolName":"draw","arguments":{"file_name_title":"Here"}}`
		a := s.send(s.key, "POST", "/v1/tool/execute", body, "x-refly-canvas-id", canvas)
		require.Equal(t, 200, a.status, a.raw)
		require.Equal(t, "Here.png", names(s.files(canvas)))
		require.Equal(t, 403, s.send(s.another("ben"), "POST", "/v1/tool/execute", body, "x-refly-canvas-id", canvas).status)
		require.Len(t, s.files(canvas), 1)
	})
}

package tool_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/tool"
)

// Whatever arrives is either understood, and then can be recorded, or refused
// as the caller's mistake.
func FuzzExecuteRequest(f *testing.F) {
	api := httpapi.New(httpapi.Deps{Auth: door{}, Logger: slog.New(slog.DiscardHandler), BodyLimit: 1 << 16, Version: "test"})
	tool.RegisterDecoder(api)
	for _, body := range []string{
		`{"toolsetKey":"demo","toolName":"get","arguments":{"a":1}}`, `{"toolsetKey":"demo","toolName":"get"}`, `{`, `[]`, `null`, ``,
		`{"toolsetKey":"demo","toolName":"get","arguments":[1]}`, `{"toolsetKey":"demo","toolName":"get","arguments":null,"x":{}}`,
		"{\"toolsetKey\":\"demo\",\"toolName\":\"get\",\"arguments\":{\"\xff\":1}}", `{"toolsetKey":"a","toolsetKey":"b","toolName":"c"}`,
		`{"toolsetKey":"demo","toolName":"get","arguments":` + strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200) + `}`,
		`{"toolsetKey":"demo","toolName":"get","arguments":{"n":1e999999,"m":-0,"l":12345678901234567890}}`,
	} {
		f.Add([]byte(body), "agent:1", "ar-1", "0", "key")
	}
	f.Add([]byte(`{}`), "\x00", "a b", "-1", "ü")
	f.Fuzz(func(t *testing.T, body []byte, parent, result, version, key string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, tool.ExecutePath, bytes.NewReader(body))
		r.Header = http.Header{
			"Content-Type": {"application/json"}, "X-Api-Key": {"rf_u-anna"}, "X-Ptc-Call-Id": {parent}, "X-Refly-Result-Id": {result},
			"X-Refly-Result-Version": {version}, "Idempotency-Key": {key},
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if !slices.Contains([]int{200, 400, 413}, w.Code) {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		var answer struct {
			Success bool
			Data    map[string]any
			ErrMsg  string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || !utf8.Valid(w.Body.Bytes()) {
			t.Fatalf("%v: %q", err, w.Body)
		}
		if answer.Success != (w.Code == 200) || !answer.Success && answer.ErrMsg == "" {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		if answer.Success && (answer.Data == nil || !utf8.Valid(body)) {
			t.Fatalf("taken: %q", body)
		}
	})
}

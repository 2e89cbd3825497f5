package composiotest

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

func (s *Server) requestUpload(w http.ResponseWriter, r *http.Request) {
	var body struct{ Filename, Mimetype, MD5, ToolSlug string }
	raw, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(raw, &body) != nil || body.Filename == "" || body.Mimetype == "" || len(body.MD5) != 2*md5.Size {
		refuse(w, http.StatusBadRequest, 2600, "Invalid request", "Send filename, mimetype and md5.")
		return
	}
	key := body.MD5 + "-" + body.Filename
	url := s.URL + "/storage/" + key
	answer(w, http.StatusCreated, map[string]any{"id": "req_file_1", "key": key, "type": "new", "new_presigned_url": url, "newPresignedUrl": url, "metadata": map[string]any{"storage_backend": "s3"}})
}

func (s *Server) put(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	sum := md5.Sum(content)
	if err != nil || !strings.HasPrefix(r.PathValue("key"), hex.EncodeToString(sum[:])) || r.Header.Get("X-Api-Key") != "" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	s.Store(r.PathValue("key"), content)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	content := s.File(r.PathValue("key"))
	if content == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(content) // a client that went away
}

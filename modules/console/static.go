package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed static
var staticFiles embed.FS

// assets are what pages load: each under an address with the hash of all, so that
// browsers may keep them for ever.
type assets struct {
	hash  string
	files map[string]asset
}

type asset struct {
	media   string
	plain   []byte
	smaller func() ([]byte, error) // the same, compressed
}

// mediaOf is the type of a file; empty for one that has none. What the machine
// believes about types may be wrong.
func mediaOf(name string) string {
	switch path.Ext(name) {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	return ""
}

func loadAssets(from fs.FS) (*assets, error) {
	all := sha256.New()
	a := &assets{files: map[string]asset{}}
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		kind := mediaOf(name)
		if kind == "" {
			return fmt.Errorf("%s has no type", name)
		}
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(all, "%s %d\n%s", name, len(text), text) // a hash takes everything
		a.files[name] = asset{kind, text, sync.OnceValues(func() ([]byte, error) { return compressed(text) })}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the console's files: %w", err)
	}
	a.hash = hex.EncodeToString(all.Sum(nil))[:16]
	return a, nil
}

func compressed(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(w, bytes.NewReader(text)); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// ServeHTTP serves {hash}/{name}. Of another hash, which a page from before an
// update names, there is nothing: that page has to be loaded again.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a.files[r.PathValue("name")]
	if !ok || r.PathValue("hash") != a.hash {
		http.Error(w, "There is no such file. Load the page again.", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", file.media)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Vary", "Accept-Encoding")
	text := file.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		if small, err := file.smaller(); err == nil { // as it is otherwise
			h.Set("Content-Encoding", "gzip")
			text = small
		}
	}
	h.Set("Content-Length", fmt.Sprint(len(text)))
	_, _ = w.Write(text) // a client that is gone
}

package composio

import (
	"context"
	"crypto/md5" //nolint:gosec // what the service asks for, to recognise files
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"

	"github.com/portico-run/portico/internal/upstream"
)

// File is a file that was stored at the service, as tools take it.
type File struct {
	Name string `json:"name"`
	Type string `json:"mimetype"`
	Key  string `json:"s3key"`
}

// Upload is a file of a caller's for one tool.
type Upload struct {
	Toolkit, Tool string
	File          File // without its Key
	Content       []byte
	// Egress lists where files may be stored beyond the public internet.
	Egress []netip.Prefix
}

// Upload stores a file, before a tool is called, and returns what tools call it.
func (c *Client) Upload(ctx context.Context, u Upload) (File, error) {
	f, err := c.store(ctx, u)
	if failed, ok := errors.AsType[*upstream.Failure](err); ok {
		if failed.Code == upstream.CodeBroken {
			failed.Message = "The connection to the storage of files broke."
		}
		failed.Message += " The tool was not called."
	}
	return f, err
}

func (c *Client) store(ctx context.Context, u Upload) (File, error) {
	f := u.File
	sum := md5.Sum(u.Content) //nolint:gosec // see the import
	var place struct {
		Key string `json:"key"`
		URL string `json:"new_presigned_url"`
		Old string `json:"newPresignedUrl"`
	}
	err := c.call(ctx, ask{method: http.MethodPost, path: "/files/upload/request", body: map[string]string{
		"toolkit_slug": u.Toolkit, "tool_slug": u.Tool, "filename": f.Name, "mimetype": f.Type, "md5": hex.EncodeToString(sum[:]),
	}}, &place)
	if err != nil {
		return f, err
	}
	if place.URL == "" {
		place.URL = place.Old
	}
	ctx, cancel := context.WithTimeout(ctx, c.deps.Timeout)
	defer cancel()
	got, err := c.deps.Upstream.Do(ctx, upstream.Request{
		Method: http.MethodPut, URL: place.URL, Body: u.Content, Allow: u.Egress, Limit: c.deps.Timeout, Harmless: true, Retries: upstream.DefaultRetries,
		Header: http.Header{"Content-Type": {f.Type}, "X-Ms-Blob-Type": {"BlockBlob"}},
	})
	if err == nil && !got.OK() {
		err = got.Refusal(nil)
	}
	f.Key = place.Key
	return f, err
}

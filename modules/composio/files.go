package composio

import (
	"context"
	"crypto/md5" //nolint:gosec // what the service asks for, to recognise files
	"encoding/hex"
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

// Upload stores a file for one tool.
func (c *Client) Upload(ctx context.Context, toolkit, tool string, f File, content []byte, egress []netip.Prefix) (File, error) {
	sum := md5.Sum(content) //nolint:gosec // see the import
	var place struct {
		Key string `json:"key"`
		URL string `json:"new_presigned_url"`
		Old string `json:"newPresignedUrl"`
	}
	err := c.call(ctx, http.MethodPost, "/files/upload/request", nil, map[string]string{
		"toolkit_slug": toolkit, "tool_slug": tool, "filename": f.Name, "mimetype": f.Type, "md5": hex.EncodeToString(sum[:]),
	}, &place)
	if err != nil {
		return f, err
	}
	if place.URL == "" {
		place.URL = place.Old
	}
	ctx, cancel := context.WithTimeout(ctx, c.deps.Timeout)
	defer cancel()
	got, err := c.deps.Upstream.Do(ctx, upstream.Request{
		Method: http.MethodPut, URL: place.URL, Body: content, Allow: egress, Limit: c.deps.Timeout, Harmless: true, Retries: upstream.DefaultRetries,
		Header: http.Header{"Content-Type": {f.Type}, "X-Ms-Blob-Type": {"BlockBlob"}},
	})
	if err == nil && !got.OK() {
		err = got.Refusal(nil)
	}
	f.Key = place.Key
	return f, err
}

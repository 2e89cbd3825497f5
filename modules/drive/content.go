package drive

import (
	"context"
	"errors"
	"io"

	"github.com/portico-run/portico/modules/internal/objectstore"
)

// content reads an object from wherever it is wanted; only what is read is
// fetched.
type content struct {
	ctx     context.Context //nolint:containedctx // that of the request it is read for
	objects objectstore.Store
	key     string
	size    int64

	at   int64 // where the next read begins
	body io.ReadCloser
	from int64 // where body stands
}

// open fetches the object from where the next read begins.
func (c *content) open() error {
	if c.body != nil && c.from == c.at {
		return nil
	}
	if err := c.Close(); err != nil {
		return err
	}
	body, err := c.objects.Get(c.ctx, c.key, c.at)
	if err != nil {
		return err
	}
	c.body, c.from = body, c.at
	return nil
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	if err := c.open(); err != nil {
		return 0, err
	}
	n, err := c.body.Read(p)
	c.at += int64(n)
	c.from = c.at
	return n, err
}

// Seek implements io.Seeker.
func (c *content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning of a file")
	}
	c.at = offset
	return offset, nil
}

// Close implements io.Closer.
func (c *content) Close() error {
	if c.body == nil {
		return nil
	}
	body := c.body
	c.body = nil
	return body.Close()
}

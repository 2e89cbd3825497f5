package objectstore

import (
	"context"
	"errors"
	"io"
)

// Open returns an object of a known size for random access; only what is read is
// fetched. It returns ErrNotFound if there is no such object. ctx bounds all
// reads, and the caller closes the object.
func Open(ctx context.Context, s Store, key string, size int64) (io.ReadSeekCloser, error) {
	r := &reader{ctx: ctx, objects: s, key: key, size: size}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

type reader struct {
	ctx     context.Context //nolint:containedctx // that of the request it is read for
	objects Store
	key     string
	size    int64

	at   int64 // where the next read begins
	body io.ReadCloser
	from int64 // where body stands
}

// open fetches the object from where the next read begins.
func (r *reader) open() error {
	if r.body != nil && r.from == r.at {
		return nil
	}
	if err := r.Close(); err != nil {
		return err
	}
	body, err := r.objects.Get(r.ctx, r.key, r.at)
	if err != nil {
		return err
	}
	r.body, r.from = body, r.at
	return nil
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.open(); err != nil {
		return 0, err
	}
	n, err := r.body.Read(p)
	r.at += int64(n)
	r.from = r.at
	return n, err
}

// Seek implements io.Seeker.
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning of a file")
	}
	r.at = offset
	return offset, nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.body == nil {
		return nil
	}
	body := r.body
	r.body = nil
	return body.Close()
}

package scripted

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// headerTimeout bounds how long a client may take to say what it wants.
const headerTimeout = 5 * time.Second

// Serve serves a scripted model over HTTP on an address until end is called.
func Serve(ctx context.Context, listen string, h http.Handler) (address string, end func() error, err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	return l.Addr().String(), func() error {
		err := server.Close()
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

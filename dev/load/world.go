package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/portico-run/portico/dev/instance"
	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/internal/lifecycle"
)

// deadline is that of one call, short so that what waits for it is seen soon.
const deadline = 5 * time.Second

// idleConnection is how long a connection stays that nobody uses: clients that
// have gone must not be counted among what the server holds.
const idleConnection = 5 * time.Second

// script is a model that has one program run and then answers.
const script = `
name: load
turns:
  - output:
      - call:
          name: execute_code
          arguments: {timeout: null, code: "for _ in range(3): list_cities()\nprint('three calls')"}
  - expect: [three calls]
    output: [{text: "Done."}]
`

// slowToolset is one whose upstream never answers in time.
const slowToolset = `
key: slow
name: Slow
domain: %s
labels: {en: Slow}
descriptions: {en: An upstream that is slow}
type: regular
authType: config_based
global: true
egress: {allow: [127.0.0.0/8]}
billing: {ask: 1}
methods:
  - name: ask
    description: Answers too late.
    endpoint: /
    method: GET
    adapter: {maxRetries: 0}
    request: {type: object, additionalProperties: false, properties: {}}
    response: {type: object}
`

// world is a server with everything around it.
type world struct {
	server   *instance.Server
	keys     []string
	client   *http.Client
	database *proxy
	objects  *proxy
	ends     []func() error
}

// build makes a world. Its parts end with close, the newest first.
func build(ctx context.Context, o options, program string) (_ *world, err error) {
	w := &world{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096, IdleConnTimeout: idleConnection}, Timeout: 10 * time.Minute}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	dir, err := os.MkdirTemp("", "portico-load-")
	if err != nil {
		return nil, err
	}
	w.later(func() error { return os.RemoveAll(dir) })
	db, drop, err := instance.NewDatabase(ctx)
	if err != nil {
		return nil, err
	}
	w.later(func() error { return drop(context.WithoutCancel(ctx)) })
	env, err := w.surroundings(ctx, dir)
	if err != nil {
		return nil, err
	}
	if o.proxied {
		if db, env, err = w.proxies(ctx, db, env); err != nil {
			return nil, err
		}
	}
	if w.server, err = instance.Start(ctx, instance.Config{Program: program, Dir: dir, Database: db, Env: env}); err != nil {
		return nil, err
	}
	w.later(func() error { return w.server.Stop(context.WithoutCancel(ctx)) })
	for n := range o.users {
		key, err := w.server.User(ctx, fmt.Sprintf("user%d", n))
		if err != nil {
			return nil, err
		}
		w.keys = append(w.keys, key)
	}
	return w, nil
}

func (w *world) later(end func() error) { w.ends = append(w.ends, end) }

func (w *world) close() error {
	var failed error
	for n := range w.ends {
		failed = errors.Join(failed, w.ends[len(w.ends)-1-n]())
	}
	w.ends = nil
	return failed
}

// surroundings starts the model and the slow upstream, and returns the server's
// settings.
func (w *world) surroundings(ctx context.Context, dir string) ([]string, error) {
	s, err := scripted.Parse([]byte(script))
	if err != nil {
		return nil, err
	}
	model, end, err := scripted.Serve(ctx, "127.0.0.1:0", scripted.New(s))
	if err != nil {
		return nil, err
	}
	w.later(end)
	gone, cancel := context.WithCancel(context.WithoutCancel(ctx))
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-gone.Done():
		}
	}))
	w.later(func() error {
		cancel()
		slow.Close()
		return nil
	})
	toolsets := filepath.Join(dir, "toolsets")
	if err := os.CopyFS(toolsets, os.DirFS("configs/toolsets")); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(toolsets, "slow.yaml"), fmt.Appendf(nil, slowToolset, slow.URL), 0o600); err != nil {
		return nil, err
	}
	env := []string{
		"TOOLSETS_DIR=" + toolsets, "MODEL_NAME=scripted", "MODEL_BASE_URL=http://" + model, "MODEL_API_KEY=none", "SANDBOX_POOL=2",
		"TOOL_TIMEOUT=" + deadline.String(), "DATABASE_MAX_CONNECTIONS=32",
	}
	if os.Getenv("PORTICO_TEST_S3_ENDPOINT") == "" {
		return nil, errors.New("PORTICO_TEST_S3_ENDPOINT is not set: use make load")
	}
	return append(env, "OBJECT_STORAGE_DRIVER=s3", "S3_ENDPOINT="+os.Getenv("PORTICO_TEST_S3_ENDPOINT"), "S3_BUCKET="+os.Getenv("PORTICO_TEST_S3_BUCKET"),
		"S3_ACCESS_KEY="+os.Getenv("PORTICO_TEST_S3_ACCESS_KEY"), "S3_SECRET_KEY="+os.Getenv("PORTICO_TEST_S3_SECRET_KEY"), "S3_REGION="+os.Getenv("PORTICO_TEST_S3_REGION")), nil
}

// proxies puts one before the database and one before the object storage.
func (w *world) proxies(ctx context.Context, db string, env []string) (string, []string, error) {
	through := func(address string) (*proxy, string, error) {
		u, err := url.Parse(address)
		if err != nil {
			return nil, "", err
		}
		p, err := newProxy(ctx, u.Host)
		if err != nil {
			return nil, "", err
		}
		w.later(p.close)
		u.Host = p.address()
		return p, u.String(), nil
	}
	var err error
	if w.database, db, err = through(db); err != nil {
		return "", nil, err
	}
	var storage string
	if w.objects, storage, err = through(os.Getenv("PORTICO_TEST_S3_ENDPOINT")); err != nil {
		return "", nil, err
	}
	return db, append(env, "S3_ENDPOINT="+storage), nil
}

// settle waits until what is done after an answer is done.
func settle(ctx context.Context) error { return lifecycle.Pause(ctx, 2*time.Second) }

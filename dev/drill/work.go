package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"sync"
	"time"

	"github.com/portico-run/portico/dev/instance"
)

// tally is how much was done, by kind.
type tally struct{ programs, calls, files, agents int }

func (t tally) String() string {
	return fmt.Sprintf("%d programs, %d calls, %d files, %d agents", t.programs, t.calls, t.files, t.agents)
}

// worker keeps a server busy.
type worker struct {
	url, key string
	end      context.CancelFunc
	group    sync.WaitGroup

	mu     sync.Mutex
	did    tally
	file   string // the address of the first one
	failed error  // the first failure
}

// content is what every file holds.
const content = "what was stored before the backup"

// work begins to work, until stop.
func work(ctx context.Context, url, key string) *worker {
	w := &worker{url: url, key: key}
	ctx, w.end = context.WithCancel(ctx)
	for _, one := range []func(ctx context.Context) error{w.program, w.call, w.upload, w.agent} {
		w.group.Go(func() {
			for ctx.Err() == nil {
				if err := one(ctx); err != nil && ctx.Err() == nil {
					w.fail(err)
					return
				}
			}
		})
	}
	return w
}

// stop ends the work. The server may be gone: what fails then is not counted.
func (w *worker) stop() {
	w.end()
	w.group.Wait()
}

func (w *worker) done() tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.did
}

func (w *worker) count(add func(t *tally)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	add(&w.did)
}

func (w *worker) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = errors.Join(w.failed, err)
}

// until lets the work go on for a while, and until some of everything was done.
func (w *worker) until(ctx context.Context, at time.Duration) error {
	const patience = time.Minute
	from, begun := w.done(), time.Now()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		w.mu.Lock()
		err := w.failed
		w.mu.Unlock()
		now := w.done()
		some := now.programs > from.programs && now.calls > from.calls && now.files > from.files && now.agents > from.agents
		if err != nil || some && time.Since(begun) > at {
			return err
		}
		if time.Since(begun) > patience {
			return fmt.Errorf("the server does too little in %s: %s", patience, now)
		}
	}
}

func (w *worker) program(ctx context.Context) error {
	answer, err := ask(ctx, w.key, w.url+"/v1/sandbox/execute", map[string]any{
		"language": "python", "toolsets": []string{"demo"}, "code": "from refly_tools.demo import Demo\nprint('large ' * 1000)\nprint(Demo.get_weather(city='Oslo'))",
	})
	if err == nil && !bytes.Contains(answer, []byte("Oslo")) {
		err = fmt.Errorf("a program failed: %s", answer)
	}
	if err == nil {
		w.count(func(t *tally) { t.programs++ })
	}
	return err
}

func (w *worker) call(ctx context.Context) error {
	err := call(ctx, w.url, w.key)
	if err == nil {
		w.count(func(t *tally) { t.calls++ })
	}
	return err
}

// call calls a tool whose credential is sealed in the database.
func call(ctx context.Context, url, key string) error {
	answer, err := ask(ctx, key, url+"/v1/tool/execute", map[string]any{"toolsetKey": "demo", "toolName": "get_weather", "arguments": map[string]string{"city": "Oslo"}})
	if err == nil && !bytes.Contains(answer, []byte(`"status":"success"`)) {
		err = fmt.Errorf("a call failed: %s", answer)
	}
	return err
}

func (w *worker) agent(ctx context.Context) error {
	_, err := ask(ctx, w.key, w.url+"/v1/skill/invoke", map[string]any{"query": "Go.", "toolsets": []string{"demo"}})
	if err == nil {
		w.count(func(t *tally) { t.agents++ })
	}
	return err
}

func (w *worker) upload(ctx context.Context) error {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "kept.txt")
	if err == nil {
		_, err = io.WriteString(part, content)
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return err
	}
	answer, err := send(ctx, w.key, w.url+"/v1/upload", form.FormDataContentType(), &body)
	if err != nil {
		return err
	}
	var stored struct {
		SessionID string `json:"session_id"`
		Files     []struct {
			FileID string `json:"fileId"`
		}
	}
	if err := json.Unmarshal(answer, &stored); err != nil || len(stored.Files) == 0 {
		return fmt.Errorf("an upload answered %s: %w", answer, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did.files++
	if w.file == "" {
		w.file = "/v1/download/" + stored.SessionID + "/" + stored.Files[0].FileID
	}
	return nil
}

// ask sends JSON.
func ask(ctx context.Context, key, url string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return send(ctx, key, url, "application/json", bytes.NewReader(text))
}

// send sends a body, or asks where there is none.
func send(ctx context.Context, key, url, kind string, body io.Reader) (answer []byte, err error) {
	method := http.MethodPost
	if body == nil {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	instance.Caller{Key: key}.Header(r.Header)
	r.Header.Set("Content-Type", kind)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if answer, err = io.ReadAll(resp.Body); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, answer)
	}
	return answer, err
}

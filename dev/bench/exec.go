package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/portico-run/portico/dev/instance"
)

// benchExec measures a small program as LibreChat asks for it, from the request
// to the answer, against a bare python3 that does nothing.
func benchExec(ctx context.Context, o options) ([]result, error) {
	return outside(o, func(program, dir string) (rows []result, err error) {
		s, stop, err := serve(ctx, instance.Config{Program: program, Dir: dir, Env: []string{"SANDBOX_POOL=2"}})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, stop()) }()
		key, err := s.User(ctx, "librechat")
		if err != nil {
			return nil, err
		}
		c := client()
		sides, err := takeTurns(ctx, o, median(func(ctx context.Context) error {
			status, body, err := post(ctx, c, s.URL+"/exec", key, map[string]any{"lang": "py", "code": "print(1)"})
			if err == nil && (status != http.StatusOK || !bytes.Contains(body, []byte(`"stdout":"1\n"`))) {
				err = fmt.Errorf("/exec answered %d: %.300s", status, body)
			}
			return err
		}), median(func(ctx context.Context) error {
			_, err := barePython(ctx)
			return err
		}))
		if err != nil {
			return nil, err
		}
		ratio := sides[0].over(sides[1]).median()
		return []result{{
			what: "/exec of print(1), request → answer, p50 (host python3 -c pass)", measured: sides[0].milliseconds(), baseline: sides[1].milliseconds(),
			ratio: fmt.Sprintf("%.2f", ratio), target: "ratio ≤ 0.6", holds: ratio <= 0.6, noise: sides[1].spread(),
		}}, nil
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/dev/demo"
	"github.com/portico-run/portico/dev/instance"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/billing"
)

// portico is a server in this process over an empty PostgreSQL database.
type portico struct {
	app  *app.App
	url  string
	db   string // URL of the database
	demo string // URL of the upstream
	keys []string
	uids []string
	stop func() error
}

// startPortico starts a server with some users that have credits.
func startPortico(ctx context.Context, users int, more ...string) (*portico, error) {
	db, drop, err := instance.NewDatabase(ctx)
	if err != nil {
		return nil, err
	}
	p, err := servePortico(ctx, db, more...)
	if err != nil {
		return nil, errors.Join(err, drop(context.WithoutCancel(ctx)))
	}
	stop := p.stop
	p.stop = func() error { return errors.Join(stop(), drop(context.WithoutCancel(ctx))) }
	for n := range users {
		if err := p.addUser(ctx, fmt.Sprintf("user%d", n)); err != nil {
			return nil, errors.Join(err, p.stop())
		}
	}
	return p, nil
}

// servePortico starts a server on a database that may serve others, too.
func servePortico(ctx context.Context, db string, more ...string) (*portico, error) {
	dir, err := os.MkdirTemp("", "portico-bench-")
	if err != nil {
		return nil, err
	}
	listen, err := instance.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	env := append([]string{
		"DATABASE_URL=" + db, "DATABASE_MAX_CONNECTIONS=32", "OBJECT_STORAGE_FOLDER=" + dir, "PORTICO_LISTEN=127.0.0.1:0",
		"DEMO_LISTEN=" + listen, "PTC_MODE=on", "SANDBOX_POOL=0", "TOOL_RATE_PER_KEY=0", "TOOL_RATE_PER_RUN=0", "LOG_LEVEL=error", "HOME=" + os.Getenv("HOME"),
	}, more...)
	c, err := configs.Load(configs.Options{Environ: env})
	if err != nil {
		return nil, err
	}
	a, err := app.Open(ctx, app.Options{Config: c, Environ: map[string]string{"HOME": os.Getenv("HOME")}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if _, err := a.Prepare(ctx); err != nil {
		return nil, err
	}
	s, err := a.Start(ctx, configs.Options{})
	if err != nil {
		return nil, err
	}
	p := &portico{app: a, url: "http://" + s.Addr().String(), db: db, demo: demo.URL(listen)}
	p.stop = func() error {
		ctx := context.WithoutCancel(ctx)
		return errors.Join(s.Stop(ctx), a.Close(), os.RemoveAll(dir))
	}
	return p, nil
}

func (p *portico) addUser(ctx context.Context, name string) error {
	u, err := p.app.Accounts.Service.CreateUser(ctx, name, "")
	if err != nil {
		return err
	}
	_, key, err := p.app.Accounts.Service.CreateKey(ctx, actor.Actor{UID: u.UID, Scope: actor.Full}, "bench", 0)
	if err != nil {
		return err
	}
	p.keys, p.uids = append(p.keys, key.Reveal()), append(p.uids, u.UID)
	return p.app.Credits.Service.Grant(ctx, u.UID, billing.Recharge{
		ID: ids.New(ids.Recharge), Amount: 1_000_000 * money.Credit, Source: "bench", ExpiresAt: time.Now().AddDate(1, 0, 0),
	})
}

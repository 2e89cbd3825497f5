package demos

import (
	"context"
	"errors"
	"log/slog"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/modules/app"
)

// on shows a demonstration on a server of a configuration, once load has given it its
// toolsets. The server is gone afterwards.
func (d Demos) on(ctx context.Context, options configs.Options, load func(ctx context.Context, a *app.App) error, show func(a *app.App, with demonstration) error) (err error) {
	a, err := d.Open(ctx, options, slog.LevelError)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if _, err := a.Prepare(ctx); err != nil {
		return err
	}
	if err := load(ctx, a); err != nil {
		return err
	}
	s, err := a.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, s.Stop(stopping))
	}()
	key, _, err := demoKey(ctx, a)
	if err != nil {
		return err
	}
	return show(a, demonstration{out: d.Out, url: "http://" + s.Addr().String(), key: key.Reveal()})
}

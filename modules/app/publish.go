package app

import (
	"github.com/portico-run/portico/internal/telemetry"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/publish"
)

// committed is told of each commit of this process.
func (a *App) committed(topic string) {
	a.Hub.Publish(topic)
	if a.Publisher == nil {
		return
	}
	if id, ok := run.OfTopic(topic); ok {
		a.Publisher.Wrote(id)
	}
}

// publisher wires what tells Redis of events, where there is one.
func (a *App) publisher() error {
	c := a.Config.Redis
	if c.URL == "" {
		return nil
	}
	var err error
	a.Publisher, err = publish.New(publish.Deps{
		Runs: a.Runs.Service, Events: a.Streams.Service, Logger: a.Logger,
		Settings: publish.Settings{URL: c.URL.Reveal(), Length: c.StreamLength, Life: c.StreamLife, CatchUp: c.CatchUp},
	})
	if err == nil {
		measurePublisher(a.Metrics, a.Publisher)
	}
	return err
}

// measurePublisher adds Redis to the metrics.
func measurePublisher(m *telemetry.Metrics, p *publish.Publisher) {
	stat := func(read func(s publish.Stats) float64) func() float64 {
		return func() float64 { return read(p.Stats()) }
	}
	m.Counter("portico_redis_published_total", "Events that Redis took from this process.", stat(func(s publish.Stats) float64 { return float64(s.Published) }))
	m.Counter("portico_redis_dropped_total", "Changes of runs that this process will not publish.", stat(func(s publish.Stats) float64 { return float64(s.Dropped) }))
	m.Gauge("portico_redis_waiting_runs", "Runs with events to publish.", stat(func(s publish.Stats) float64 { return float64(s.Waiting) }))
	m.Gauge("portico_redis_lag_seconds", "For how long the oldest of them waits.", stat(func(s publish.Stats) float64 { return s.Lag.Seconds() }))
}

type redisBody struct {
	Status    string  `json:"status" enum:"ok,away"`
	Waiting   int     `json:"waiting" doc:"Runs with events to publish"`
	Lag       float64 `json:"lagSeconds" doc:"For how long the oldest of them waits"`
	Published int64   `json:"published" doc:"Events that Redis took from this process"`
	Dropped   int64   `json:"dropped" doc:"Changes of runs that this process will not publish"`
}

// redisHealth says how publishing goes; nil without Redis. A server whose Redis
// is away can work.
func (a *App) redisHealth() *redisBody {
	if a.Publisher == nil {
		return nil
	}
	s := a.Publisher.Stats()
	b := &redisBody{Status: "ok", Waiting: s.Waiting, Lag: s.Lag.Seconds(), Published: s.Published, Dropped: s.Dropped}
	if s.Away {
		b.Status = "away"
	}
	return b
}

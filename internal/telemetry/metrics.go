// Package telemetry counts and times what the program does, for Prometheus.
package telemetry

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the numbers of one process. No label names a user.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// New returns metrics of the process itself and of its HTTP requests.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portico_http_requests_total", Help: "HTTP requests by method, route and status.",
		}, []string{"method", "route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "portico_http_request_seconds", Help: "Duration of HTTP requests by method and route, streams included.",
			Buckets: buckets(),
		}, []string{"method", "route"}),
	}
	m.registry.MustRegister(m.requests, m.seconds, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Request counts an answered request. The route is the pattern, not the path;
// requests without a route share an empty one.
func (m *Metrics) Request(method, route string, status int, took time.Duration) {
	if route == "" {
		method = "" // clients may invent any number of methods
	}
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(method, route).Observe(took.Seconds())
}

// Gauge adds a number that goes up and down. value is asked at each reading.
func (m *Metrics) Gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// Counter adds a number that only grows. value is asked at each reading.
func (m *Metrics) Counter(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
}

// Count adds a number that only grows and returns what makes it grow. The
// labels' values come from the program, never from a request.
func (m *Metrics) Count(name, help string, labels ...string) func(n int, values ...string) {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(counter)
	if len(labels) == 0 {
		counter.WithLabelValues() // is there before anything happens
	}
	return func(n int, values ...string) { counter.WithLabelValues(values...).Add(float64(n)) }
}

// Gauges adds numbers that go up and down and returns what sets one of them. The labels'
// values come from the program, never from a request.
func (m *Metrics) Gauges(name, help string, labels ...string) func(value float64, values ...string) {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(gauge)
	return func(value float64, values ...string) { gauge.WithLabelValues(values...).Set(value) }
}

// Times adds durations and returns what takes one of them down. The labels' values
// come from the program, never from a request.
func (m *Metrics) Times(name, help string, labels ...string) func(took time.Duration, values ...string) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets()}, labels)
	m.registry.MustRegister(seconds)
	if len(labels) == 0 {
		seconds.WithLabelValues() // is there before anything happens
	}
	return func(took time.Duration, values ...string) { seconds.WithLabelValues(values...).Observe(took.Seconds()) }
}

// buckets are bounds of durations in seconds.
func buckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

// Handler answers with all numbers in Prometheus' text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

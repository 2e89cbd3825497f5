package configs

import (
	"net/url"
	"strings"
)

// Admin is the address for who runs the process: profiles, numbers, the level of
// the log.
type Admin struct {
	// Listen is the address, "host:port"; empty is none.
	Listen string `key:"listen" env:"PORTICO_ADMIN_LISTEN"`
	// Token is what requests carry as their bearer token. It may be empty where
	// Listen is a loopback address.
	Token Secret `key:"token" env:"PORTICO_ADMIN_TOKEN"`
}

// Tracing says where OpenTelemetry's traces go. The variables are the standard's.
type Tracing struct {
	// Endpoint is the base of a receiver of OTLP over HTTP; empty traces nothing.
	Endpoint string `key:"endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	// Headers are sent with every request there: "name=value", separated by commas,
	// with what is not plain text as in URLs.
	Headers Secret `key:"headers" env:"OTEL_EXPORTER_OTLP_HEADERS"`
	// Ratio is the part of requests that are traced, from 0 to 1.
	Ratio Decimal `key:"ratio" env:"OTEL_TRACES_SAMPLER_ARG"`
	// Trust lets the traceparent of a client decide that its request is traced.
	Trust bool `key:"trust" env:"PORTICO_TRACE_TRUST"`
}

// HeaderMap is Headers by name; nil where they cannot be read.
func (t Tracing) HeaderMap() map[string]string {
	headers := map[string]string{}
	if t.Headers == "" {
		return headers
	}
	for h := range strings.SplitSeq(t.Headers.Reveal(), ",") {
		name, value, found := strings.Cut(strings.TrimSpace(h), "=")
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !found || err != nil || !headerForm.MatchString(name) {
			return nil
		}
		headers[name] = plain
	}
	return headers
}

package instance

import (
	"context"
	"strings"
)

// StartNode starts a sandbox node as operators do, which takes programs of servers that
// Start started, and waits until it is ready. Its database is none.
func StartNode(ctx context.Context, c Config, trust string) (*Server, error) {
	listen, err := FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	return start(ctx, c, listen, "PORTICO_ROLE=sandbox", "PORTICO_MODE=production", "SANDBOX_NODE_LISTEN="+listen, "SANDBOX_NODE_TRUST="+trust)
}

// Address is where the process listens, as "host:port".
func (s *Server) Address() string { return strings.TrimPrefix(s.URL, "http://") }

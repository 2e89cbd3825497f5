package hubtest

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// silent does not answer the question of the newer era.
type silent struct{ mcp.Transport }

// Connect implements mcp.Transport.
func (s silent) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := s.Transport.Connect(ctx)
	return silentConnection{c}, err
}

type silentConnection struct{ mcp.Connection }

// Read implements mcp.Connection.
func (c silentConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if r, ok := m.(*jsonrpc.Request); ok && r.Method == "server/discover" {
			continue
		}
		return m, err
	}
}

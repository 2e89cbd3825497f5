package demo

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type hoursOf struct {
	Day string `json:"day" jsonschema:"a day of the week, such as Sunday"`
}

type hours struct {
	Open   string `json:"open"`
	Closed bool   `json:"closed"`
}

// ServeHours is a small MCP server over standard input and output. It has one
// tool, and ends when its input does.
func ServeHours(ctx context.Context) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "hours", Version: "1"}, nil)
	tool := &mcp.Tool{Name: "opening_hours", Description: "When the boathouse is open.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}
	mcp.AddTool(s, tool, func(_ context.Context, _ *mcp.CallToolRequest, in hoursOf) (*mcp.CallToolResult, hours, error) {
		switch in.Day {
		case "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday":
			return nil, hours{Open: "08:00 to 18:00"}, nil
		case "Sunday":
			return nil, hours{Closed: true}, nil
		}
		return nil, hours{}, fmt.Errorf("%q is not a day of the week", in.Day)
	})
	return s.Run(ctx, &mcp.StdioTransport{})
}

package mcp

import (
	"context"
	"log/slog"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/connector/mcp/listing"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// Audit returns what records that the tools of a server are not what they were.
func Audit(db *database.DB, log *slog.Logger) func(ctx context.Context, by actor.Actor, s server.Server, c listing.Change) {
	return func(ctx context.Context, by actor.Actor, s server.Server, c listing.Change) {
		detail := map[string]string{}
		for name, tools := range map[string][]string{"added": c.Added, "removed": c.Removed, "changed": c.Changed} {
			if len(tools) > 0 {
				detail[name] = shown(tools)
			}
		}
		who := actor.Actor{UID: s.UID}
		if s.UID == "" {
			who.UID = audit.Operator
		}
		err := db.InTx(ctx, func(tx database.Tx) error {
			return audit.Write(tx, audit.Change{By: who, Action: "mcp.tools", Subject: s.Name, Detail: detail}, db.Now())
		})
		if err != nil {
			log.ErrorContext(ctx, "a change of the tools of an MCP server is not in the audit log", "server", s.Name, "uid", by.UID, "error", err)
		}
	}
}

// shown are the first names of a list, and that there are others.
func shown(names []string) string {
	const most = 50
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", and others"
	}
	return strings.Join(names, ", ")
}

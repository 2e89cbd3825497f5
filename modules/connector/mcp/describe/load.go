package describe

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
)

// Load makes the servers that files describe what the files say, and returns all
// that is wrong with them.
func Load(ctx context.Context, into Into, path string, variables map[string]string) (Applied, []Problem, error) {
	all, problems, err := files(path, variables)
	if err != nil {
		return Applied{}, problems, err
	}
	// A file that cannot be read may describe any server.
	partial := slices.ContainsFunc(problems, func(p Problem) bool { return p.Server == "" })
	applied, refused, err := apply(ctx, into, all, partial)
	return applied, append(problems, refused...), err
}

// Boot is Load for a server that starts: what is wrong is in the log and keeps
// nothing else from being loaded. No path, or one where nothing is, loads nothing.
func Boot(ctx context.Context, into Into, path string, variables map[string]string, log *slog.Logger) error {
	if path == "" {
		return nil
	}
	applied, problems, err := Load(ctx, into, path, variables)
	if errors.Is(err, os.ErrNotExist) {
		log.WarnContext(ctx, "there is no file of MCP servers", "MCP_SERVERS_FILE", path)
		return nil
	}
	for _, p := range problems {
		log.ErrorContext(ctx, "an MCP server is not described as it should be; it stays as it was", "file", p.File, "line", p.Line, "server", p.Server, "problem", p.Message)
	}
	if err == nil {
		log.InfoContext(ctx, "MCP servers loaded", "created", applied.Created, "updated", applied.Updated, "removed", applied.Removed, "unchanged", len(applied.Unchanged))
	}
	return err
}

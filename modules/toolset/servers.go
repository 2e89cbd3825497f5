package toolset

import (
	"context"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Servers are MCP servers as toolsets: the name of a server is its key.
type Servers interface {
	// Identify finds the actor's own server of a name, else everybody's, else Missing.
	Identify(ctx context.Context, a actor.Actor, key string) (Toolset, error)
	Method(ctx context.Context, t Toolset, name string) (Method, Credential, error)
	// Describe asks servers for their tools, each for itself, by their keys.
	Describe(ctx context.Context, a actor.Actor, keys []string) map[string]Described
	// Keys are those of servers that an actor may use, and whether each is the actor's.
	Keys(ctx context.Context, a actor.Actor) (map[string]bool, error)
}

// Described is a toolset, or why it cannot be described.
type Described struct {
	Definition Definition
	Problem    error
}

// server is what the name of an MCP server means.
func (s *Service) server(ctx context.Context, a actor.Actor, key string) (Toolset, error) {
	if s.servers == nil {
		return Toolset{Key: key, Name: key, Kind: MCP, Unsupported: "MCP tool execution is not supported."}, nil
	}
	return s.servers.Identify(ctx, a, key)
}

// described are MCP servers of some keys, or all. A toolset hides everybody's server.
func (s *Service) described(ctx context.Context, a actor.Actor, keys []string, toolsets map[string]rows.Toolset) (map[string]Described, error) {
	if s.servers == nil {
		return nil, nil //nolint:nilnil // there are none
	}
	all, err := s.servers.Keys(ctx, a)
	if err != nil {
		return nil, err
	}
	var asked []string
	for key, own := range all {
		if _, hidden := toolsets[key]; (len(keys) == 0 || slices.Contains(keys, key)) && (own || !hidden) {
			asked = append(asked, key)
		}
	}
	return s.servers.Describe(ctx, a, asked), nil
}

// ExportForSDK is Export for the route of SDKs, which MCP servers are open to or not.
func (s *Service) ExportForSDK(ctx context.Context, a actor.Actor, keys []string) ([]Definition, []Failure, error) {
	sets, failures, err := s.Export(ctx, a, keys)
	if s.exportServers || err != nil {
		return sets, failures, err
	}
	sets = slices.DeleteFunc(sets, func(set Definition) bool {
		if set.Server && len(keys) > 0 {
			failures = append(failures, Failure{Key: set.Key, Problem: Missing(set.Key)})
		}
		return set.Server
	})
	return sets, failures, nil
}

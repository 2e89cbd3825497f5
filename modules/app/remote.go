package app

import (
	"crypto/ed25519"
	"crypto/tls"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/peer"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/remote"
	"github.com/portico-run/portico/modules/sandbox/remote/agentsandbox"
	"github.com/portico-run/portico/modules/sandbox/remote/registry"
	"github.com/portico-run/portico/modules/sandbox/remote/wire"
)

// nodePairs sign for this server at sandbox nodes: the first key is that of
// ENCRYPTION_KEY, the others are those of the keys before it.
func nodePairs(c *configs.Config) ([]ed25519.PrivateKey, error) {
	return serverKeys(c).Pairs("portico sandbox nodes")
}

// NodeKeys are the public keys that sandbox nodes are to trust, the newest first.
func NodeKeys(c *configs.Config) ([]string, error) {
	pairs, err := nodePairs(c)
	var keys []string
	for _, p := range pairs {
		if public, ok := p.Public().(ed25519.PublicKey); ok {
			keys = append(keys, wire.PublicKey(public))
		}
	}
	return keys, err
}

// nodeTLS is nil where servers and sandbox nodes do not encrypt.
func nodeTLS(n configs.Nodes) (*tls.Config, error) {
	if n.Certificate == "" {
		return nil, nil //nolint:nilnil // it is optional
	}
	return peer.TLS("SANDBOX_NODE_TLS", n.Certificate, n.Key, n.Authority)
}

// remote is the engine of programs that run on sandbox nodes. It decides who runs when,
// as where they run here.
func (a *App) remote() (*sandbox.Engine, error) {
	s := a.Config.Sandbox
	keys, err := nodePairs(a.Config)
	if err != nil {
		return nil, err
	}
	secured, err := nodeTLS(s.Nodes)
	if err != nil {
		return nil, err
	}
	client := remote.NewClient(remote.ClientConfig{Keys: keys, TLS: secured})
	nodes, err := a.nodesOf(client)
	if err != nil {
		return nil, err
	}
	return a.engineOf(remote.New(remote.Deps{Nodes: nodes, Client: client, Output: s.Output, Logger: a.Logger}), sandbox.Pool{Min: s.Pool, Max: a.maxPool()}), nil
}

// nodesOf finds nodes where the configuration says that they come from.
func (a *App) nodesOf(client *remote.Client) (remote.Nodes, error) {
	s := a.Config.Sandbox
	if s.Claims.Pool == "" {
		a.Sandboxes = registry.New(registry.Deps{Addresses: s.Nodes.Addresses, Asker: client, Logger: a.Logger})
		return a.Sandboxes, nil
	}
	cluster, err := agentsandbox.Connect(s.Claims.Kubeconfig)
	if err != nil {
		return nil, err
	}
	a.claims = agentsandbox.New(agentsandbox.Settings{Namespace: s.Claims.Namespace, Pool: s.Claims.Pool, Port: s.Claims.Port, Idle: s.Claims.Idle}, cluster, client, a.Logger)
	return a.claims, nil
}

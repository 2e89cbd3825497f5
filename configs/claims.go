package configs

import (
	"regexp"
	"time"
)

// Claims is how a server with the driver remote takes sandbox nodes out of a warm pool of
// Kubernetes' agent-sandbox, one for each user.
type Claims struct {
	// Pool is the SandboxWarmPool; empty where nodes are at Nodes.Addresses.
	Pool string `key:"pool" env:"SANDBOX_CLAIM_POOL"`
	// Namespace is where the pool is, and where claims are made.
	Namespace string `key:"namespace" env:"SANDBOX_CLAIM_NAMESPACE"`
	// Port is where the nodes of the pool listen.
	Port int `key:"port" env:"SANDBOX_CLAIM_PORT"`
	// Idle is how long the node of a user is kept after their last program.
	Idle time.Duration `key:"idle" env:"SANDBOX_CLAIM_IDLE"`
	// Kubeconfig leads to the cluster from outside, for development; empty in a pod.
	Kubeconfig string `key:"kubeconfig" env:"SANDBOX_CLAIM_KUBECONFIG"`
}

const (
	minClaimIdle = time.Minute
	maxPort      = 65535
)

func (l *loader) validateClaims() {
	s := &l.config.Sandbox
	c := &s.Claims
	name := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	l.must(&c.Pool, c.Pool == "" || name.MatchString(c.Pool), "must be the name of a SandboxWarmPool, such as portico")
	l.must(&c.Pool, c.Pool == "" || s.Driver == Remote, "counts only where SANDBOX_DRIVER is remote")
	l.must(&c.Pool, c.Pool == "" || len(s.Nodes.Addresses) == 0, "must be empty where SANDBOX_NODES says where sandbox nodes are: they come from one of the two")
	l.must(&c.Pool, c.Pool == "" || !l.developmentKeyCounts(),
		"needs an ENCRYPTION_KEY of your own, since whoever knows it may use your sandbox nodes, and everybody knows the development key; make one with: openssl rand -hex 32")
	l.must(&c.Namespace, c.Pool == "" || name.MatchString(c.Namespace), "must be the namespace of the pool in SANDBOX_CLAIM_POOL")
	l.must(&c.Port, c.Port > 0 && c.Port <= maxPort, "must be a port, such as 5803")
	l.must(&c.Idle, c.Idle >= minClaimIdle, "must be a minute at least")
}

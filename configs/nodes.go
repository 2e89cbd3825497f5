package configs

import "strings"

// Nodes is how servers and sandbox nodes reach each other.
type Nodes struct {
	// Addresses are where a server with the driver remote finds nodes, "host:port". A name
	// may have several addresses.
	Addresses []string `key:"addresses" env:"SANDBOX_NODES"`
	// Listen is where a node listens for servers.
	Listen string `key:"listen" env:"SANDBOX_NODE_LISTEN"`
	// Trust are the public keys of the servers whose programs a node runs, as
	// portico node key prints them.
	Trust []string `key:"trust" env:"SANDBOX_NODE_TRUST"`
	// Tenants is TenantsMany, or TenantsOne for a node that serves the first user alone
	// whose program it was given.
	Tenants string `key:"tenants" env:"SANDBOX_NODE_TENANTS"`
	// Certificate, Key and Authority are files in PEM by which servers and nodes know each
	// other; all three or none.
	Certificate string `key:"certificate" env:"SANDBOX_NODE_TLS_CERT"`
	Key         string `key:"key" env:"SANDBOX_NODE_TLS_KEY"`
	Authority   string `key:"authority" env:"SANDBOX_NODE_TLS_CA"`
}

// Whom a node serves.
const (
	TenantsMany = "many"
	TenantsOne  = "one"
)

func (l *loader) validateNodes() {
	c := l.config
	n := &c.Sandbox.Nodes
	l.mustBeOneOf(&c.Server.Role, RoleAll, RoleAPI, RoleSandbox)
	l.mustBeOneOf(&n.Tenants, TenantsMany, TenantsOne)
	l.must(&n.Listen, isAddress(n.Listen), `must be an address like ":5803" or "10.0.0.5:5803"`)
	l.must(&c.Sandbox.Driver, c.Server.Role != RoleAPI || c.Sandbox.Driver == Remote, "must be remote where the role is api: such a process runs no programs itself")
	l.must(&c.Sandbox.Driver, c.Server.Role != RoleSandbox || c.Sandbox.Driver != Remote, "must not be remote where the role is sandbox: such a process runs the programs of others")
	l.must(&n.Addresses, c.Sandbox.Driver != Remote || len(n.Addresses) > 0 || c.Sandbox.Claims.Pool != "", "must say where sandbox nodes are, such as sandbox:5803, where SANDBOX_DRIVER is remote; or SANDBOX_CLAIM_POOL names a pool of them in Kubernetes")
	for _, address := range n.Addresses {
		l.must(&n.Addresses, isAddress(address) && !strings.HasPrefix(address, ":"), `must be addresses like "sandbox:5803", separated by commas`)
		l.must(&n.Addresses, c.Sandbox.Driver != Remote || IsLoopback("http://"+address) || !l.developmentKeyCounts(),
			"needs an ENCRYPTION_KEY of your own, since whoever knows it may use your sandbox nodes, and everybody knows the development key; make one with: openssl rand -hex 32")
	}
	for _, key := range n.Trust {
		l.must(&n.Trust, publicForm.MatchString(key), "must be public keys, separated by commas, which portico node key prints")
	}
	whole := (n.Certificate == "") == (n.Key == "") && (n.Key == "") == (n.Authority == "")
	for _, file := range []*string{&n.Certificate, &n.Key, &n.Authority} {
		l.must(file, *file == "" || whole, "needs the other two of SANDBOX_NODE_TLS_…: all three or none")
	}
}

// validateSecretless keeps secrets out of a sandbox node, whose programs nobody trusts.
func (l *loader) validateSecretless() {
	if l.config.Server.Mode != Production {
		return
	}
	for _, s := range l.settings {
		switch s.value.Interface().(type) {
		case Secret, DatabaseURL:
			if l.given[s.key] && !l.broken[s.key] {
				l.problem(s, "must not be set where the role is sandbox: such a process holds no secret")
			}
		}
	}
	for _, name := range l.credentials {
		l.problems = append(l.problems, name+" must not be set where the role is sandbox: such a process holds no secret")
	}
}

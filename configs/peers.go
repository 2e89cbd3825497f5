package configs

// Peers is how the processes of one Portico reach each other.
type Peers struct {
	// Listen is where this process listens for the others; empty where it is alone.
	// No balancer may lead there.
	Listen string `key:"listen" env:"PORTICO_PEER_LISTEN"`
	// Address is where the others reach it, "host:port"; empty for Listen.
	Address string `key:"address" env:"PORTICO_PEER_ADDRESS"`
	// Certificate, Key and Authority are files in PEM by which processes know each
	// other; all three or none.
	Certificate string `key:"certificate" env:"PORTICO_PEER_TLS_CERT"`
	Key         string `key:"key" env:"PORTICO_PEER_TLS_KEY"`
	Authority   string `key:"authority" env:"PORTICO_PEER_TLS_CA"`
}

// Place is where the others reach this process; empty for nowhere.
func (p Peers) Place() string {
	if p.Listen == "" || p.Address != "" {
		return p.Address
	}
	return p.Listen
}

package configs

// Admin is the address for who runs the process: profiles, numbers, the level of
// the log.
type Admin struct {
	// Listen is the address, "host:port"; empty is none.
	Listen string `key:"listen" env:"PORTICO_ADMIN_LISTEN"`
	// Token is what requests carry as their bearer token. It may be empty where
	// Listen is a loopback address.
	Token Secret `key:"token" env:"PORTICO_ADMIN_TOKEN"`
}

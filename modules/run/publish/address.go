package publish

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// address is where a Redis is, and who asks it.
type address struct {
	hostPort       string
	user, password string
	database       string
	tls            *tls.Config // nil without TLS
}

const defaultPort = "6379"

// parseAddress reads "redis://USER:PASSWORD@HOST:PORT/DATABASE", or rediss:// for
// TLS. Its errors say nothing of the text, which may hold a password.
func parseAddress(text string) (address, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "redis" && u.Scheme != "rediss" || u.RawQuery != "" || u.Fragment != "" {
		return address{}, errors.New("REDIS_URL is not the address of a Redis: it is redis://USER:PASSWORD@HOST:PORT/DATABASE, or rediss:// for TLS, with nothing after it")
	}
	a := address{hostPort: net.JoinHostPort(u.Hostname(), defaultPort), user: u.User.Username(), database: strings.Trim(u.Path, "/")}
	if u.Port() != "" {
		a.hostPort = net.JoinHostPort(u.Hostname(), u.Port())
	}
	a.password, _ = u.User.Password()
	if _, err := strconv.ParseUint(a.database, 10, 31); err != nil && a.database != "" {
		return address{}, errors.New("REDIS_URL is not the address of a Redis: its path is the number of a database, such as /0")
	}
	if u.Scheme == "rediss" {
		a.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	}
	return a, nil
}

// greeting is what a new connection begins with.
func (a address) greeting() [][]string {
	var commands [][]string
	switch {
	case a.password != "" && a.user != "":
		commands = append(commands, []string{"AUTH", a.user, a.password})
	case a.password != "":
		commands = append(commands, []string{"AUTH", a.password})
	}
	if a.database != "" && a.database != "0" {
		commands = append(commands, []string{"SELECT", a.database})
	}
	return commands
}

package configs

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/viper"
)

//go:embed default.yaml
var defaults []byte

// FileVariable names the configuration file when Options.File is empty.
const FileVariable = "PORTICO_CONFIG"

// developmentKey is the encryption key of a development server without one.
// It is published here and the same everywhere, so it protects nothing, and
// development data stays readable.
const developmentKey = "ccbce6fa3d6a678170e5b1ef6d3f730d42ead38ea89f797b34c5bf869462bcde"

// noToolset empties a list of toolsets: an empty variable would leave the
// default in force.
const noToolset = "none"

// Options say where the configuration comes from.
type Options struct {
	// File is the YAML file; empty means the one FileVariable names, or none.
	File string
	// Environ is the environment as os.Environ returns it.
	Environ []string
}

func (o Options) environment() map[string]string {
	env := make(map[string]string, len(o.Environ))
	for _, entry := range o.Environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = strings.TrimSpace(value)
	}
	return env
}

func (o Options) file() string {
	if o.File != "" {
		return o.File
	}
	return o.environment()[FileVariable]
}

// InvalidError lists everything that is wrong with a configuration.
type InvalidError struct {
	// Problems are sentences that name the setting and what it has to be.
	// None of them repeats a value.
	Problems []string
}

// Error returns one line for each problem.
func (e *InvalidError) Error() string {
	return "the configuration is not valid:\n  - " + strings.Join(e.Problems, "\n  - ")
}

// Load reads the configuration and checks it. An error is an *InvalidError
// with all problems at once, or says that the file cannot be read.
func Load(o Options) (*Config, error) {
	var content []byte
	if path := o.file(); path != "" {
		var err error
		if content, err = os.ReadFile(path); err != nil {
			return nil, readError(path, err)
		}
	}
	return load(content, o.environment())
}

func readError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the configuration file %s does not exist", path)
	}
	return fmt.Errorf("read the configuration file: %w", err)
}

func load(file []byte, env map[string]string) (*Config, error) {
	base, err := decode(defaults)
	if err != nil {
		return nil, fmt.Errorf("default.yaml: %w", err)
	}
	own, err := decode(file)
	if err != nil {
		return nil, fmt.Errorf("the configuration file is not valid YAML: %w", err)
	}
	c := new(Config)
	l := &loader{config: c, settings: settings(c), given: map[string]bool{}, broken: map[string]bool{}}
	l.findUnknown(own, env)
	for _, s := range l.settings {
		l.set(s, base, own, env)
	}
	l.finish()
	l.validate()
	if len(l.problems) > 0 {
		return nil, &InvalidError{Problems: l.problems}
	}
	return c, nil
}

// decode reads YAML into a viper of its own: one that is shared would have to
// be locked against readers.
func decode(content []byte) (*viper.Viper, error) {
	v := viper.New()
	v.SetConfigType("yaml")
	return v, v.ReadConfig(bytes.NewReader(content))
}

// loader is the state of one load.
type loader struct {
	config   *Config
	settings []setting
	given    map[string]bool // keys set by the file or the environment
	broken   map[string]bool // keys that already have a problem
	// credentials are variables that hold secrets of toolsets.
	credentials []string
	problems    []string
}

func (l *loader) problem(s setting, text string) {
	l.broken[s.key] = true
	l.problems = append(l.problems, s.name()+" "+text)
}

// set gives s its value: the environment's, else the file's, else the default.
func (l *loader) set(s setting, base, own *viper.Viper, env map[string]string) {
	var err error
	if text := env[s.env]; text != "" {
		l.given[s.key] = true
		err = s.setText(text)
	} else if raw := own.Get(s.key); raw != nil {
		l.given[s.key] = true
		err = s.setYAML(raw)
	} else {
		err = s.setYAML(base.Get(s.key))
	}
	if err != nil {
		l.problem(s, err.Error())
	}
}

// findUnknown reports keys of the file that are not settings, and variables that
// look like ours and are not: a misspelled limit, list or key that silently does
// not apply would be dangerous.
func (l *loader) findUnknown(own *viper.Viper, env map[string]string) {
	keys := map[string]bool{}
	groups := map[string]bool{}
	names := map[string]bool{}
	for _, s := range l.settings {
		key := strings.ToLower(s.key)
		keys[key], names[s.env] = true, true
		for i, r := range key {
			if r == '.' {
				groups[key[:i]] = true
			}
		}
	}
	unknown := own.AllKeys()
	slices.Sort(unknown)
	for _, key := range unknown {
		switch {
		case keys[key], groups[key] && own.Get(key) == nil:
		case hasParent(keys, key): // reported as a wrong value of that setting
		case groups[key]:
			l.problems = append(l.problems, fmt.Sprintf("%q in the file is a group of settings and needs keys below it", key))
		default:
			l.problems = append(l.problems, fmt.Sprintf("%q in the file is not a setting; see configs/default.yaml for the names", key))
		}
	}
	for name, value := range env {
		if strings.HasPrefix(name, "TOOLSET_") && value != "" {
			l.credentials = append(l.credentials, name)
		}
		if (strings.HasPrefix(name, "PTC_") || strings.HasPrefix(name, "BILLING_") || strings.HasPrefix(name, "CODEAPI_")) && !names[name] {
			l.warn(name + " is set but is not a setting; see .env.example for the names")
		}
	}
	slices.Sort(l.config.Warnings)
	slices.Sort(l.credentials)
}

// hasParent reports whether a group that key is in is one of keys.
func hasParent(keys map[string]bool, key string) bool {
	for i, r := range key {
		if r == '.' && keys[key[:i]] {
			return true
		}
	}
	return false
}

func (l *loader) warn(text string) {
	l.config.Warnings = append(l.config.Warnings, text)
}

// finish fills in what depends on other settings.
func (l *loader) finish() {
	c := l.config
	if slices.Equal(c.Billing.FreeToolsets, []string{noToolset}) {
		c.Billing.FreeToolsets = []string{}
	}
	if c.Server.Endpoint == "" {
		c.Server.Endpoint = EndpointOf(c.Server.Listen)
		if strings.HasSuffix(c.Server.Endpoint, ":0") {
			l.warn("PORTICO_LISTEN leaves the port to the system and ENDPOINT is not set: links to files lead nowhere")
		}
	}
	c.Server.Endpoint = strings.TrimRight(c.Server.Endpoint, "/")
	c.Sandbox.S3Lib.PathPrefix = strings.Trim(c.Sandbox.S3Lib.PathPrefix, "/")
	if c.Server.Mode == Production {
		if !l.given[l.settingOf(&c.Demo.Enabled).key] {
			c.Demo.Enabled = false
		}
		return
	}
	if c.Server.Role == RoleSandbox {
		return
	}
	if c.Server.JWTSecret == "" {
		l.warn("JWT_SECRET is not set: session tokens are signed with a secret that is kept in the data folder")
	}
	if c.Server.EncryptionKey == "" {
		c.Server.EncryptionKey = developmentKey
		l.warn("ENCRYPTION_KEY is not set: stored credentials are sealed with a key that everybody knows")
	}
}

// EndpointOf is where a caller on the same machine reaches a server that listens
// on an address: one that listens on every interface, at localhost.
func EndpointOf(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if ip, parsed := netip.ParseAddr(host); err != nil || host == "" || parsed == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// IsLoopback reports whether an endpoint is this machine for whoever uses it.
func IsLoopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// settingOf returns the setting that a pointer into the configuration is.
func (l *loader) settingOf(field any) setting {
	i := slices.IndexFunc(l.settings, func(s setting) bool { return s.value.Addr().Interface() == field })
	return l.settings[i]
}

package configs_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/portico-run/portico/configs"
)

// service is what these tests look at in docker-compose.yml.
type service struct {
	Environment map[string]string `yaml:"environment"`
	SecurityOpt []string          `yaml:"security_opt"`
	Privileged  bool              `yaml:"privileged"`
	CapAdd      []string          `yaml:"cap_add"`
	User        string            `yaml:"user"`
}

func services(t *testing.T) map[string]service {
	t.Helper()
	content, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]service `yaml:"services"`
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	return file.Services
}

// interpolate replaces "${NAME:-default}" by the default, or by a value.
func interpolate(text string, values map[string]string) string {
	variable := regexp.MustCompile(`\$\{([A-Z0-9_]+):-([^}]*)\}`)
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		m := variable.FindStringSubmatch(found)
		if v := values[m[1]]; v != "" {
			return v
		}
		return m[2]
	})
}

func composeEnvironment(t *testing.T, values map[string]string) []string {
	t.Helper()
	var environ []string
	for name, value := range services(t)["api"].Environment {
		if !slices.Contains(configs.Variables(), name) {
			t.Errorf("docker-compose.yml sets %s, which is not a setting", name)
		}
		environ = append(environ, name+"="+interpolate(value, values))
	}
	return environ
}

func TestComposeEnvironmentIsValid(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "", composeEnvironment(t, nil)...)
	if got, want := c.Database.URL.Reveal(), "postgres://portico:portico@postgres:5432/portico?sslmode=disable"; got != want {
		t.Errorf("database = %q, want %q", got, want)
	}
	if c.ObjectStorage.Driver != configs.S3Driver || c.PTC.Mode != "on" || c.Sandbox.S3Lib.PathPrefix != "refly-tools" {
		t.Errorf("unexpected configuration: %+v", c)
	}
	mustLoad(t, "", composeEnvironment(t, map[string]string{
		"PORTICO_MODE": configs.Production, "JWT_SECRET": jwtSecret, "ENCRYPTION_KEY": encryptionKey,
	})...)
}

// Only the service that runs sandboxes may make namespaces, and nothing is
// root or has more than it needs.
func TestComposeSecurity(t *testing.T) {
	t.Parallel()
	all := services(t)
	for _, name := range []string{"api", "postgres", "minio", "redis"} {
		if _, ok := all[name]; !ok {
			t.Errorf("no service %s", name)
		}
	}
	for name, s := range all {
		for _, option := range []string{"seccomp=unconfined", "systempaths=unconfined"} {
			if got, want := slices.Contains(s.SecurityOpt, option), name == "api"; got != want {
				t.Errorf("service %s has %s: %v, want %v", name, option, got, want)
			}
		}
		if s.Privileged || len(s.CapAdd) > 0 || s.User != "" {
			t.Errorf("service %s is privileged, adds capabilities or changes the image's user", name)
		}
	}
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^ENV ([A-Z_0-9]+)=`).FindAllStringSubmatch(string(content), -1) {
		if !slices.Contains(configs.Variables(), m[1]) {
			t.Errorf("the Dockerfile sets %s, which is not a setting", m[1])
		}
	}
	users := regexp.MustCompile(`(?m)^USER (.*)$`).FindAllStringSubmatch(string(content), -1)
	if len(users) == 0 || users[len(users)-1][1] == "root" || users[len(users)-1][1] == "0" {
		t.Error("the image runs as root")
	}
}

package configs_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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
	Grace       string            `yaml:"stop_grace_period"`
	Ports       []string          `yaml:"ports"`
	Volumes     []string          `yaml:"volumes"`
	Entrypoint  []string          `yaml:"entrypoint"`
	Command     any               `yaml:"command"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
}

func services(t *testing.T) map[string]service {
	t.Helper()
	return servicesOf(t, "../docker-compose.yml")
}

func servicesOf(t *testing.T, path string) map[string]service {
	t.Helper()
	content, err := os.ReadFile(path)
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

// Three processes share all that they must, have addresses of their own, and begin when
// the database is as they need it; nobody but the balancer is reached from outside.
func TestComposeOfThreeProcesses(t *testing.T) {
	t.Parallel()
	all := servicesOf(t, "compose/three.yml")
	waits := func(of, what, condition string) {
		t.Helper()
		if got := all[of].DependsOn[what].Condition; got != condition {
			t.Errorf("%s waits for %s: %q, want %q", of, what, got, condition)
		}
	}
	environ := func(of string) (list []string) {
		secret := regexp.MustCompile(`\$\{(JWT_SECRET|ENCRYPTION_KEY):\?[^}]*\}`)
		for name, value := range all[of].Environment {
			if !slices.Contains(configs.Variables(), name) {
				t.Errorf("%s is given %s, which is not a setting", of, name)
			}
			if (name == "JWT_SECRET" || name == "ENCRYPTION_KEY") != secret.MatchString(value) {
				t.Errorf("%s has %s=%s", of, name, value)
			}
			value = secret.ReplaceAllStringFunc(value, func(string) string {
				return map[string]string{"JWT_SECRET": jwtSecret, "ENCRYPTION_KEY": encryptionKey}[name]
			})
			list = append(list, name+"="+interpolate(value, nil))
		}
		return list
	}
	balancer := all["balancer"].Environment
	for n := range 3 {
		name := fmt.Sprintf("api-%d", n+1)
		c := mustLoad(t, "", environ(name)...)
		if len(c.Warnings) > 0 || c.Server.Migrate || c.Peers.Place() != name+":5802" || c.ObjectStorage.Driver != configs.S3Driver {
			t.Errorf("%s: %+v", name, c.Server)
		}
		if got := balancer[fmt.Sprintf("API_%d", n+1)]; got != name+c.Server.Listen {
			t.Errorf("the balancer leads to %s", got)
		}
		if len(all[name].Ports) > 0 || all[name].Grace != "6m" || !slices.Contains(all[name].SecurityOpt, "no-new-privileges=true") || len(all[name].Volumes) > 0 {
			t.Errorf("%s: %+v", name, all[name])
		}
		waits(name, "migrate", "service_completed_successfully")
		waits("balancer", name, "service_healthy")
	}
	mustLoad(t, "", environ("migrate")...)
	waits("migrate", "postgres", "service_healthy")
	waits("migrate", "bucket", "service_completed_successfully")
	waits("bucket", "minio", "service_healthy")
	if command := fmt.Sprint(all["migrate"].Entrypoint, all["migrate"].Command); command != "[bash -euc] [portico migrate up && portico toolset apply]" {
		t.Errorf("the migration is %s", command)
	}
	for name, s := range all {
		if s.Privileged || len(s.CapAdd) > 0 || s.User != "" {
			t.Errorf("service %s is privileged, adds capabilities or changes the image's user", name)
		}
		if programs := strings.HasPrefix(name, "api-"); slices.Contains(s.SecurityOpt, "seccomp=unconfined") != programs {
			t.Errorf("service %s may make namespaces: %v", name, !programs)
		}
		if (len(s.Ports) > 0) != (name == "balancer") {
			t.Errorf("service %s is reached at %v", name, s.Ports)
		}
	}
	if !slices.Equal(all["balancer"].Ports, []string{"127.0.0.1:5800:5800"}) || balancer["BALANCER"] != ":5800" ||
		!slices.Contains(all["balancer"].Volumes, "./haproxy.cfg:/usr/local/etc/haproxy/haproxy.cfg:ro") {
		t.Errorf("the balancer: %+v", all["balancer"])
	}
	content, err := os.ReadFile("compose/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	for name := range balancer {
		if !strings.Contains(string(content), `"$`+name+`"`) {
			t.Errorf("the balancer's configuration does not use %s", name)
		}
	}
}

// The balancer cuts off no program, and sends again only what nobody was sent.
func TestTheBalancerIsPatient(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("compose/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	c := mustLoad(t, "")
	for _, side := range []string{"client", "server"} {
		m := regexp.MustCompile(`(?m)^    timeout ` + side + ` (\w+)$`).FindSubmatch(content)
		if m == nil {
			t.Fatalf("no timeout of the %s", side)
		}
		idle, err := time.ParseDuration(string(m[1]))
		if err != nil || idle < c.Sandbox.MaxTimeout+10*time.Second {
			t.Errorf("the %s is cut off after %s (%v), and programs may take %s", side, idle, err, c.Sandbox.MaxTimeout)
		}
	}
	if m := regexp.MustCompile(`(?m)^    retry-on (.*)$`).FindSubmatch(content); m == nil || string(m[1]) != "conn-failure" {
		t.Errorf("what is sent again: %s", m)
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

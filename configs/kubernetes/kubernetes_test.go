// Package kubernetes_test reads the manifests as a cluster would, and holds them against
// the program.
package kubernetes_test

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/portico-run/portico/configs"
)

var (
	overlays  = []string{"overlays/all-in-one", "overlays/split", "overlays/agent-sandbox"}
	component = "app.kubernetes.io/component"
)

// each runs a test on every overlay.
func each(t *testing.T, test func(t *testing.T, c cluster, name string)) {
	t.Helper()
	for _, folder := range overlays {
		name := strings.TrimPrefix(folder, "overlays/")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, load(t, folder), name)
		})
	}
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func same(t *testing.T, what string, got any, want ...string) {
	t.Helper()
	is, isList := got.([]string)
	if !isList {
		is = []string{fmt.Sprint(got)}
	}
	if !slices.Equal(is, want) {
		t.Errorf("%s: %v, want %v", what, is, want)
	}
}

func TestOverlaysHaveWhatTheyNeed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c cluster, name string) {
		same(t, "namespaces", sorted(c.namespaces), "portico")
		same(t, "settings", sorted(c.configMaps), "portico-config", "portico-settings")
		pods := map[string][]string{
			"all-in-one": {"portico", "portico-migrate"}, "split": {"portico", "portico-migrate", "portico-sandbox"},
			"agent-sandbox": {"portico", "portico-migrate", "template portico"},
		}[name]
		same(t, "pods", sorted(c.groups), pods...)
		if name == "agent-sandbox" {
			pool := c.pools["portico"]
			if _, has := c.templates[pool.Spec.Template.Name]; !has || pool.Spec.Replicas < 1 {
				t.Errorf("the pool: %+v", pool)
			}
			same(t, "the template's", environment(t, c, c.templates["portico"].Spec.Pod.Spec.Containers[0])["SANDBOX_NODE_TENANTS"], "one")
			same(t, "policies of the template", c.templates["portico"].Spec.Policies, "Unmanaged")
			b := c.bindings["portico"]
			_, hasRole := c.roles[b.Role.Name]
			_, hasAccount := c.accounts[b.Subjects[0].Name]
			if !hasRole || !hasAccount || b.Subjects[0].Namespace != "portico" {
				t.Errorf("the binding: %+v", b)
			}
		}
	})
	nodes := load(t, "seccomp")
	same(t, "namespaces", sorted(nodes.namespaces), "portico-nodes")
	same(t, "pods", sorted(nodes.groups), "portico-seccomp")
}

// What Kubernetes wants as text is text: true and 3 without quotes are not.
func TestTextsAreTexts(t *testing.T) {
	t.Parallel()
	var look func(path string, o any)
	look = func(path string, o any) {
		switch o := o.(type) {
		case object:
			for name, value := range o {
				within := path + "." + name
				if _, isText := value.(string); !isText && regexp.MustCompile(`\.(data|labels|matchLabels|annotations|requests|limits|metadata)\.[^.]+$|\.env\.value$`).MatchString(within) &&
					!slices.Contains([]string{"labels", "annotations"}, name) {
					t.Errorf("%s is %v, and no text", within, value)
				}
				look(within, value)
			}
		case []any:
			for _, value := range o {
				look(path, value)
			}
		}
	}
	for _, folder := range append(overlays, "seccomp", "components/keda") {
		for _, o := range render(t, folder) {
			look(text(o, "kind")+" "+text(o, "metadata", "name"), o)
		}
	}
}

// secrets are the settings that no file may hold.
func secrets() (names []string) {
	var look func(of reflect.Type)
	look = func(of reflect.Type) {
		for f := range of.Fields() {
			env := f.Tag.Get("env")
			switch {
			case f.Type == reflect.TypeFor[configs.Secret](), f.Type == reflect.TypeFor[configs.DatabaseURL]():
				names = append(names, env)
			case f.Type.Kind() == reflect.Struct && env == "":
				look(f.Type)
			}
		}
	}
	look(reflect.TypeFor[configs.Config]())
	return names
}

// made are values of the Secret and the ConfigMap that docs/operations.md tells users to make.
func made() map[string]string {
	return map[string]string{
		"JWT_SECRET": strings.Repeat("s", 64), "ENCRYPTION_KEY": strings.Repeat("0a", 32), "PORTICO_ADMIN_TOKEN": strings.Repeat("t", 64),
		"DATABASE_URL": "postgres://portico:x@db.example/portico", "S3_ACCESS_KEY": "a", "S3_SECRET_KEY": "b", "SANDBOX_NODE_TRUST": strings.Repeat("c", 43),
	}
}

// environment is what a container is started with.
func environment(t *testing.T, c cluster, of container) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, from := range of.EnvFrom {
		m, has := c.configMaps[from.ConfigMap.Name]
		if !has {
			t.Errorf("%s: no ConfigMap %s", of.Name, from.ConfigMap.Name)
		}
		maps.Copy(env, m.Data)
	}
	for _, v := range of.Env {
		value := v.Value
		switch from := v.ValueFrom; {
		case from.Field.Path == "status.podIP":
			value = "10.0.0.5"
		case from.Field.Path == "metadata.namespace":
			value = "portico"
		case from.Field.Path != "":
			t.Errorf("%s: %s is of %s", of.Name, v.Name, from.Field.Path)
		case from.Secret.Name != "":
			same(t, v.Name, from.Secret.Name+" "+from.Secret.Key, "portico "+v.Name)
			value = made()[v.Name]
			if (value == "") != from.Secret.Optional {
				t.Errorf("%s: users are not told to make %s, or need not", of.Name, v.Name)
			}
		case from.ConfigMap.Name != "":
			same(t, v.Name, from.ConfigMap.Name+" "+from.ConfigMap.Key, "portico-nodes "+v.Name)
			value = made()[v.Name]
		}
		if _, twice := env[v.Name]; twice {
			t.Errorf("%s is given %s twice", of.Name, v.Name)
		}
		// Kubernetes puts in variables that come before.
		env[v.Name] = regexp.MustCompile(`\$\((\w+)\)`).ReplaceAllStringFunc(value, func(of string) string { return env[of[2:len(of)-1]] })
	}
	return env
}

// known reports whether a variable is a setting. Those of a part of the program that is not
// here yet are not asked for before its first one is.
func known(name string) bool {
	if slices.Contains(configs.Variables(), name) {
		return true
	}
	for _, part := range []string{"SANDBOX_NODE", "SANDBOX_CLAIM"} {
		if strings.HasPrefix(name, part) {
			return !slices.ContainsFunc(configs.Variables(), func(v string) bool { return strings.HasPrefix(v, part) })
		}
	}
	return false
}

// Every pod starts: what it is given is a valid configuration, with every setting spelled
// as it should be, and nothing that the program warns of.
func TestPodsAreConfigured(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c cluster, name string) {
		for of, g := range c.groups {
			for _, one := range g.pod.Spec.Containers {
				env := environment(t, c, one)
				var environ []string
				here := true
				for variable, value := range env {
					if variable == "POD_IP" {
						continue
					}
					if !known(variable) {
						t.Errorf("%s is given %s, which is not a setting", of, variable)
					}
					here = here && slices.Contains(configs.Variables(), variable)
					if variable != configs.FileVariable { // its content is looked at below
						environ = append(environ, variable+"="+value)
					}
				}
				if _, role, has := strings.Cut(strings.Join(one.Args, " "), "--role="); has {
					environ, here = append(environ, "PORTICO_ROLE="+role), here && slices.Contains(configs.Variables(), "PORTICO_ROLE")
				}
				if !here {
					continue
				}
				config, err := configs.Load(configs.Options{Environ: environ})
				if err != nil {
					t.Errorf("%s: %v", of, err)
					continue
				}
				same(t, of+" warns", config.Warnings)
				if config.Server.Mode != configs.Production || g.pod.Metadata.Labels[component] != "sandbox" && (config.Server.Migrate || config.ObjectStorage.Driver != configs.S3Driver) {
					t.Errorf("%s: %+v", of, config.Server)
				}
				if of == "portico" {
					same(t, "where others reach it", config.Peers.Place(), "10.0.0.5:5802")
				}
			}
		}
		file := t.TempDir() + "/portico.yaml"
		if err := os.WriteFile(file, []byte(c.configMaps["portico-config"].Data["portico.yaml"]), 0o600); err != nil {
			t.Fatal(err)
		}
		if config, err := configs.Load(configs.Options{File: file}); err != nil || config.PTC.Mode != "on" {
			t.Errorf("the file: %v", err)
		}
		same(t, "the file", c.configMaps["portico-settings"].Data[configs.FileVariable], "/etc/portico/portico.yaml")
	})
}

// Secrets are in a Secret that is in no file, and the commands of the documentation make
// every one of them.
func TestNoSecretIsInAFile(t *testing.T) {
	t.Parallel()
	document := string(read(t, "../../docs/operations.md"))
	each(t, func(t *testing.T, c cluster, name string) {
		for _, m := range c.configMaps {
			for setting := range m.Data {
				if slices.Contains(secrets(), setting) {
					t.Errorf("%s has %s", m.Metadata.Name, setting)
				}
			}
		}
		for of, g := range c.groups {
			for _, one := range g.pod.Spec.Containers {
				for _, v := range one.Env {
					if from := v.ValueFrom.Secret; slices.Contains(secrets(), v.Name) && (from.Name == "" || v.Value != "") {
						t.Errorf("%s has the value of %s", of, v.Name)
					} else if from.Name != "" && !from.Optional && !strings.Contains(document, "--from-literal="+v.Name+"=") {
						t.Errorf("no command makes %s", v.Name)
					}
				}
			}
		}
	})
	if len(secrets()) < 10 {
		t.Errorf("secrets: %v", secrets())
	}
}

// Every pod is hardened; only those that run programs may make namespaces, and have what
// that needs.
func TestPodsAreHardened(t *testing.T) {
	t.Parallel()
	user := regexp.MustCompile(`useradd --system --uid (\d+)`).FindSubmatch(read(t, "../../Dockerfile"))
	each(t, func(t *testing.T, c cluster, name string) {
		for of, g := range c.groups {
			s, part := g.pod.Spec, g.pod.Metadata.Labels[component]
			programs := part == "sandbox" || part == "api" && name == "all-in-one"
			if !s.Security.NonRoot || strconv.Itoa(s.Security.User) != string(user[1]) || s.Security.Group == 0 || s.Links == nil || *s.Links {
				t.Errorf("%s: %+v", of, s.Security)
			}
			token := part == "api" && name == "agent-sandbox"
			if s.Token == nil || *s.Token != token || (s.ServiceAccount != "") != token {
				t.Errorf("%s has the token of a service account", of)
			}
			if alone := s.HostUsers != nil && !*s.HostUsers; alone != programs {
				t.Errorf("%s has users of its own: %v", of, alone)
			}
			if g.Metadata.Labels["portico.run/runs-programs"] == "true" != programs {
				t.Errorf("%s is labelled otherwise", of)
			}
			for _, one := range s.Containers {
				security, seccomp := one.Security, s.Security.Seccomp
				if security.Seccomp.Type != "" {
					seccomp = security.Seccomp
				}
				if security.Escalation == nil || *security.Escalation || !security.ReadOnly || fmt.Sprint(security.Capabilities) != "{[ALL] []}" || security.User != nil {
					t.Errorf("%s: %+v", of, security)
				}
				wanted, proc := profileRef{Type: "RuntimeDefault"}, ""
				if programs {
					wanted, proc = profileRef{"Localhost", "profiles/portico-sandbox.json"}, "Unmasked"
				}
				if seccomp != wanted || security.ProcMount != proc {
					t.Errorf("%s: %+v, /proc %q", of, seccomp, security.ProcMount)
				}
				if one.Resources.Requests["cpu"] == "" || one.Resources.Requests["memory"] == "" || one.Resources.Limits["memory"] == "" {
					t.Errorf("%s takes what it likes: %+v", of, one.Resources)
				}
				if !regexp.MustCompile(`^registry\.example\.com/portico:\d+\.\d+\.\d+$`).MatchString(one.Image) {
					t.Errorf("%s runs %s", of, one.Image)
				}
				checkVolumes(t, of, s, one)
			}
		}
	})
}

// checkVolumes looks whether what is written is in a volume, and in none of the node.
func checkVolumes(t *testing.T, of string, s podSpec, one container) {
	t.Helper()
	volumes := map[string]bool{}
	for _, v := range s.Volumes {
		if v.Host != nil {
			t.Errorf("%s has a folder of the node", of)
		}
		volumes[v.Name] = v.Empty != nil
	}
	writes := map[string]bool{}
	for _, m := range one.Mounts {
		writable, has := volumes[m.Name]
		if !has || writable == m.ReadOnly {
			t.Errorf("%s mounts %s", of, m.Name)
		}
		writes[m.Path] = writable
	}
	if !writes["/app/data"] || !writes["/tmp"] {
		t.Errorf("%s writes to %v", of, writes)
	}
}

// The memory of a pod holds the programs that may run and wait in it.
func TestMemoryHoldsThePrograms(t *testing.T) {
	t.Parallel()
	defaults, err := configs.Load(configs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, c cluster, name string) {
		for of, g := range c.groups {
			if g.Metadata.Labels["portico.run/runs-programs"] != "true" {
				continue
			}
			one := g.pod.Spec.Containers[0]
			env := environment(t, c, one)
			running, _ := strconv.Atoi(env["SANDBOX_MAX_CONCURRENT"])
			paused, _ := strconv.Atoi(env["SANDBOX_MAX_PAUSED"])
			limit, _ := strconv.Atoi(strings.TrimSuffix(one.Resources.Limits["memory"], "Gi"))
			const waiting = 15 << 20
			if need := int64(running)*defaults.Sandbox.Memory + int64(paused)*waiting; running == 0 || paused == 0 || int64(limit)<<30 < need {
				t.Errorf("%s has %d GiB, and its programs may take %d bytes", of, limit, need)
			}
		}
	})
}

// A pod that ends has the time to finish its work, and another one is there before.
func TestUpgradesLoseNothing(t *testing.T) {
	t.Parallel()
	defaults, err := configs.Load(configs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, c cluster, name string) {
		for of, w := range c.workloads {
			if w.Kind != "Deployment" {
				continue
			}
			need := defaults.Server.DrainDelay + defaults.Server.DrainTimeout + defaults.Server.ShutdownGrace
			if grace := w.Spec.Template.Spec.Grace; float64(grace) < need.Seconds() {
				t.Errorf("%s is killed after %d s, and may need %s", of, grace, need)
			}
			rolling := w.Spec.Strategy.Rolling
			if w.Spec.Strategy.Type != "RollingUpdate" || rolling.Surge != 1 || rolling.Unavailable == nil || *rolling.Unavailable != 0 {
				t.Errorf("%s: %+v", of, w.Spec.Strategy)
			}
		}
	})
}

package kubernetes_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/portico-run/portico/configs"
)

// Ports, probes and addresses are those where the programs listen.
func TestPortsAreThoseOfThePrograms(t *testing.T) {
	t.Parallel()
	port := func(address string) int {
		_, number, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.Atoi(number)
		return n
	}
	defaults, err := configs.Load(configs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, c cluster, name string) {
		for of, g := range c.groups {
			one := g.pod.Spec.Containers[0]
			env, listens := environment(t, c, one), map[string]int{}
			for _, p := range one.Ports {
				listens[p.Name] = p.Port
			}
			want := map[string]int{}
			switch g.pod.Metadata.Labels[component] {
			case "api":
				want = map[string]int{"http": port(defaults.Server.Listen), "peer": port(env["PORTICO_PEER_LISTEN"]), "admin": port(env["PORTICO_ADMIN_LISTEN"])}
				same(t, "peers", port(env["PORTICO_PEER_ADDRESS"]), strconv.Itoa(want["peer"]))
				if nodes := env["SANDBOX_NODES"]; nodes != "" {
					host, _, _ := strings.Cut(nodes, ":")
					s, has := c.services[host]
					if !has || s.Spec.ClusterIP != "None" || s.Spec.Ports[0].Port != port(nodes) {
						t.Errorf("%s is not a service of pods: %+v", nodes, s)
					}
				}
			case "sandbox":
				want = map[string]int{"sandbox": port(env["SANDBOX_NODE_LISTEN"])}
			}
			for what, p := range map[string]*probe{"/healthz": one.Startup, "/readyz": one.Readiness, "/healthz ": one.Liveness} {
				if name := g.pod.Metadata.Labels[component]; name != "migrate" && (p == nil || p.HTTP.Path != strings.TrimSpace(what) || p.HTTP.Port != map[string]string{"api": "http", "sandbox": "sandbox"}[name]) {
					t.Errorf("%s: the probe %s is %+v", of, what, p)
				}
			}
			same(t, of+" listens", listens, fmt.Sprint(want))
			args := strings.Join(one.Args, " ")
			// What is run.
			role := map[bool]string{true: "serve", false: "serve --role=" + g.pod.Metadata.Labels[component]}[name == "all-in-one"]
			if g.pod.Metadata.Labels[component] == "migrate" {
				role = "portico migrate up\nportico toolset apply\n"
			}
			if !strings.HasPrefix(args, role) || len(one.Args) > 1 && args != role {
				t.Errorf("%s runs %q", of, args)
			}
		}
		for of, s := range c.services {
			for _, p := range s.Spec.Ports {
				if to := selected(c, s.Spec.Selector); len(to) != 1 || !slices.ContainsFunc(c.groups[to[0]].pod.Spec.Containers[0].Ports, func(has struct {
					Name string `yaml:"name"`
					Port int    `yaml:"containerPort"`
				},
				) bool {
					return has.Name == p.Target
				}) {
					t.Errorf("the service %s leads to %s of %v", of, p.Target, to)
				}
			}
		}
	})
}

// selected are the pods that a selector selects.
func selected(c cluster, want labels) (names []string) {
	for name, g := range c.groups {
		if len(want) > 0 && matches(want, g.pod.Metadata.Labels) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// What selects pods selects those that it should, and no others.
func TestSelectors(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c cluster, name string) {
		for of, w := range c.workloads {
			if w.Kind != "Job" {
				same(t, "the pods of "+of, selected(c, w.Spec.Selector.MatchLabels), of)
			}
			for _, s := range w.Spec.Template.Spec.Spread {
				same(t, of+" is spread with", selected(c, s.Selector.MatchLabels), of)
			}
		}
		for of, b := range c.budgets {
			same(t, "the budget", selected(c, b.Spec.Selector.MatchLabels), of)
			same(t, "the budget", b.Spec.Unavailable, "1")
		}
		for of, s := range c.services {
			same(t, "the service", selected(c, s.Spec.Selector), of)
		}
		for of, s := range c.scalers {
			same(t, "the scaler's", s.Spec.Target.Name, of)
			if _, has := c.workloads[of]; !has || s.Spec.Behavior.Down.Window != 600 || s.Spec.Min < 2 {
				t.Errorf("the scaler %s: %+v", of, s.Spec)
			}
		}
		if _, has := c.budgets["portico"]; !has {
			t.Error("there is no budget")
		}
		m := c.scalers["portico"].Spec.Metrics[0].Pods
		same(t, "scaled by", m.Metric.Name+" "+m.Target["averageValue"], "portico_sandbox_saturation 700m")
	})
}

package kubernetes_test

import (
	"slices"
	"testing"
)

// somebody is who begins a connection.
type somebody struct {
	namespace string
	labels    labels
}

// reaches reports whether the policies let somebody reach a port of pods.
func reaches(c cluster, from somebody, to labels, port int) bool {
	return admits(c, from, to, port, "Ingress") && (from.namespace != "portico" || admits(c, somebody{"portico", to}, from.labels, port, "Egress"))
}

// admits reports whether the policies of pods let them be connected with others, in one
// direction.
func admits(c cluster, others somebody, pods labels, port int, direction string) bool {
	limited := false
	for _, p := range c.policies {
		if !matches(p.Spec.Pods.MatchLabels, pods) || !slices.Contains(p.Spec.Types, direction) {
			continue
		}
		limited = true
		flows := p.Spec.Ingress
		if direction == "Egress" {
			flows = p.Spec.Egress
		}
		for _, f := range flows {
			open := len(f.Ports) == 0
			for _, has := range f.Ports {
				open = open || has.Port == port && has.Protocol == "TCP"
			}
			if open && (len(f.From)+len(f.To) == 0 || slices.ContainsFunc(append(f.From, f.To...), func(e end) bool { return is(e, others) })) {
				return true
			}
		}
	}
	return !limited
}

func is(e end, who somebody) bool {
	inNamespace := who.namespace == "portico"
	if e.Namespaces != nil {
		inNamespace = matches(e.Namespaces.MatchLabels, labels{"kubernetes.io/metadata.name": who.namespace})
	}
	return inNamespace && (e.Pods == nil || matches(e.Pods.MatchLabels, who.labels))
}

// Users reach the API, Portico's pods each other, the monitoring its port, and programs
// nothing.
func TestWhoReachesWhom(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c cluster, name string) {
		api, migrate := c.groups["portico"].pod.Metadata.Labels, c.groups["portico-migrate"].pod.Metadata.Labels
		sandbox := labels{"app.kubernetes.io/name": "portico", component: "sandbox"}
		if name != "all-in-one" {
			g := c.groups[map[string]string{"split": "portico-sandbox", "agent-sandbox": "template portico"}[name]]
			same(t, "labels of programs' pods", matches(sandbox, g.pod.Metadata.Labels), "true")
		}
		for _, one := range []struct {
			from somebody
			to   labels
			port int
			want bool
		}{
			{somebody{"ingress", nil}, api, 5800, true},
			{somebody{"portico", api}, api, 5802, true},
			{somebody{"portico", labels{"app.kubernetes.io/name": "other"}}, api, 5802, false},
			{somebody{"portico", sandbox}, api, 5802, false},
			{somebody{"other", api}, api, 5802, false},
			{somebody{"ingress", nil}, api, 5802, false},
			{somebody{"monitoring", nil}, api, 5804, true},
			{somebody{"monitoring", nil}, api, 5802, false},
			{somebody{"ingress", nil}, api, 5804, false},
			{somebody{"portico", api}, api, 5804, false},
			{somebody{"portico", api}, migrate, 5800, false},
			{somebody{"portico", migrate}, labels{"app": "postgres"}, 5432, true},
			{somebody{"portico", api}, labels{"app": "postgres"}, 5432, true},
		} {
			if got := reaches(c, one.from, one.to, one.port); got != one.want {
				t.Errorf("%v reaches %d of %v: %v", one.from, one.port, one.to, got)
			}
		}
		if name == "all-in-one" {
			return
		}
		for _, one := range []struct {
			from somebody
			to   labels
			port int
			want bool
		}{
			{somebody{"portico", api}, sandbox, 5803, true},
			{somebody{"portico", api}, sandbox, 5800, false},
			{somebody{"portico", sandbox}, sandbox, 5803, false},
			{somebody{"other", api}, sandbox, 5803, false},
			{somebody{"monitoring", nil}, sandbox, 5803, false},
			{somebody{"portico", sandbox}, api, 5800, false},
			{somebody{"portico", sandbox}, labels{"app": "postgres"}, 5432, false},
			{somebody{"portico", sandbox}, labels{"k8s-app": "kube-dns"}, 53, false},
		} {
			if got := reaches(c, one.from, one.to, one.port); got != one.want {
				t.Errorf("%v reaches %d of %v: %v", one.from, one.port, one.to, got)
			}
		}
	})
}

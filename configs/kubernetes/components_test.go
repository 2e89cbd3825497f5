package kubernetes_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// With the component for AppArmor, every pod that runs programs is without its profile,
// and nothing else changes.
func TestComponents(t *testing.T) {
	t.Parallel()
	for _, folder := range overlays {
		before, after := render(t, folder), render(t, folder)
		after = add(t, "components/apparmor-unconfined", after)
		freed := 0
		for i := range after {
			spec := at(after[i], "spec", "template", "spec", "securityContext")
			if after[i]["kind"] == "SandboxTemplate" {
				spec = at(after[i], "spec", "podTemplate", "spec", "securityContext")
			}
			if text(spec, "appArmorProfile", "type") == "Unconfined" {
				freed++
				delete(spec.(object), "appArmorProfile")
			}
			if after[i]["kind"] == "Namespace" {
				same(t, "the namespace", text(after[i], "metadata", "labels", "pod-security.kubernetes.io/enforce"), "privileged")
				continue
			}
			if !reflect.DeepEqual(before[i], after[i]) {
				t.Errorf("%s: %v", folder, after[i])
			}
		}
		same(t, folder, freed, "1")
	}
	keda := load(t, "components/keda")
	if len(keda.keda) != 1 || len(keda.secrets) != 1 {
		t.Errorf("%+v", keda)
	}
	trigger := keda.keda["portico"].Spec.Triggers[0]
	same(t, "the secret", keda.secrets[trigger.Authentication.Name].Spec.Secrets[0], "{connection portico DATABASE_URL}")
	same(t, "scaled", keda.keda["portico"].Spec.Target.Name, "portico")
	same(t, "the window", keda.keda["portico"].Spec.Advanced.HPA.Behavior.Down.Window, "600")
}

// The profile of system calls comes to where the pods name it.
func TestTheProfileComesToTheNodes(t *testing.T) {
	t.Parallel()
	c := load(t, "seccomp")
	s := c.groups["portico-seccomp"].pod.Spec
	one := s.Containers[0]
	if s.Token == nil || *s.Token || one.Security.Escalation == nil || *one.Security.Escalation || !one.Security.ReadOnly || fmt.Sprint(one.Security.Capabilities) != "{[ALL] []}" {
		t.Errorf("%+v", one.Security)
	}
	folders := map[string]string{}
	for _, v := range s.Volumes {
		if v.Host != nil {
			folders[v.Name] = v.Host.Path
		} else if data := c.configMaps[v.ConfigMap.Name].Data; data["portico-sandbox.json"] != string(read(t, "seccomp/portico-sandbox.json")) {
			t.Errorf("%s has %v", v.ConfigMap.Name, data)
		}
	}
	same(t, "folders of the node", folders, "map[node:/var/lib/kubelet/seccomp/profiles]")
	for _, m := range one.Mounts {
		if m.Name == "node" && !strings.Contains(one.Args[0], m.Path+"/portico-sandbox.json\n") {
			t.Errorf("it does not write to %s", m.Path)
		}
	}
}

package kubernetes_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The fields of Kubernetes' objects that our files use. A field that is not here is
// misspelled, or somebody has to say here what it is.
type (
	labels map[string]string

	metadata struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
		Labels    labels `yaml:"labels"`
	}
	head struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Metadata   metadata `yaml:"metadata"`
	}
	selector struct {
		MatchLabels labels `yaml:"matchLabels"`
	}
	reference struct {
		APIVersion string `yaml:"apiVersion"`
		APIGroup   string `yaml:"apiGroup"`
		Kind       string `yaml:"kind"`
		Name       string `yaml:"name"`
		Namespace  string `yaml:"namespace"`
	}

	keyRef struct {
		Name     string `yaml:"name"`
		Key      string `yaml:"key"`
		Optional bool   `yaml:"optional"`
	}
	variable struct {
		Name      string `yaml:"name"`
		Value     string `yaml:"value"`
		ValueFrom struct {
			Field struct {
				Path string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
			Secret    keyRef `yaml:"secretKeyRef"`
			ConfigMap keyRef `yaml:"configMapKeyRef"`
		} `yaml:"valueFrom"`
	}
	probe struct {
		HTTP struct {
			Path string `yaml:"path"`
			Port string `yaml:"port"`
		} `yaml:"httpGet"`
		Period   int `yaml:"periodSeconds"`
		Timeout  int `yaml:"timeoutSeconds"`
		Failures int `yaml:"failureThreshold"`
	}
	profileRef struct {
		Type  string `yaml:"type"`
		Local string `yaml:"localhostProfile"`
	}
	container struct {
		Name    string   `yaml:"name"`
		Image   string   `yaml:"image"`
		Command []string `yaml:"command"`
		Args    []string `yaml:"args"`
		Ports   []struct {
			Name string `yaml:"name"`
			Port int    `yaml:"containerPort"`
		} `yaml:"ports"`
		EnvFrom []struct {
			ConfigMap struct {
				Name string `yaml:"name"`
			} `yaml:"configMapRef"`
		} `yaml:"envFrom"`
		Env      []variable `yaml:"env"`
		Security struct {
			User         *int  `yaml:"runAsUser"`
			Group        *int  `yaml:"runAsGroup"`
			Escalation   *bool `yaml:"allowPrivilegeEscalation"`
			ReadOnly     bool  `yaml:"readOnlyRootFilesystem"`
			Capabilities struct {
				Drop []string `yaml:"drop"`
				Add  []string `yaml:"add"`
			} `yaml:"capabilities"`
			ProcMount string     `yaml:"procMount"`
			Seccomp   profileRef `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		Startup   *probe `yaml:"startupProbe"`
		Readiness *probe `yaml:"readinessProbe"`
		Liveness  *probe `yaml:"livenessProbe"`
		Resources struct {
			Requests labels `yaml:"requests"`
			Limits   labels `yaml:"limits"`
		} `yaml:"resources"`
		Mounts []struct {
			Name     string `yaml:"name"`
			Path     string `yaml:"mountPath"`
			ReadOnly bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	podSpec struct {
		Grace          int    `yaml:"terminationGracePeriodSeconds"`
		Restart        string `yaml:"restartPolicy"`
		ServiceAccount string `yaml:"serviceAccountName"`
		Token          *bool  `yaml:"automountServiceAccountToken"`
		Links          *bool  `yaml:"enableServiceLinks"`
		HostUsers      *bool  `yaml:"hostUsers"`
		Tolerations    []struct {
			Operator string `yaml:"operator"`
		} `yaml:"tolerations"`
		Security struct {
			NonRoot  bool       `yaml:"runAsNonRoot"`
			User     int        `yaml:"runAsUser"`
			Group    int        `yaml:"runAsGroup"`
			Files    int        `yaml:"fsGroup"`
			Seccomp  profileRef `yaml:"seccompProfile"`
			AppArmor profileRef `yaml:"appArmorProfile"`
		} `yaml:"securityContext"`
		Spread []struct {
			Skew     int      `yaml:"maxSkew"`
			Topology string   `yaml:"topologyKey"`
			When     string   `yaml:"whenUnsatisfiable"`
			Selector selector `yaml:"labelSelector"`
		} `yaml:"topologySpreadConstraints"`
		Containers []container `yaml:"containers"`
		Volumes    []struct {
			Name      string `yaml:"name"`
			ConfigMap struct {
				Name string `yaml:"name"`
			} `yaml:"configMap"`
			Empty *struct {
				Limit string `yaml:"sizeLimit"`
			} `yaml:"emptyDir"`
			Host *struct {
				Path string `yaml:"path"`
				Type string `yaml:"type"`
			} `yaml:"hostPath"`
		} `yaml:"volumes"`
	}
	pod struct {
		Metadata metadata `yaml:"metadata"`
		Spec     podSpec  `yaml:"spec"`
	}
	// workload is a Deployment, a DaemonSet or a Job.
	workload struct {
		head `yaml:",inline"`

		Spec struct {
			Selector selector `yaml:"selector"`
			Strategy struct {
				Type    string `yaml:"type"`
				Rolling struct {
					Surge       int  `yaml:"maxSurge"`
					Unavailable *int `yaml:"maxUnavailable"`
				} `yaml:"rollingUpdate"`
			} `yaml:"strategy"`
			Backoff  int `yaml:"backoffLimit"`
			Template pod `yaml:"template"`
		} `yaml:"spec"`
	}

	configMap struct {
		head `yaml:",inline"`

		Data labels `yaml:"data"`
	}
	service struct {
		head `yaml:",inline"`

		Spec struct {
			ClusterIP string `yaml:"clusterIP"`
			Selector  labels `yaml:"selector"`
			Ports     []struct {
				Name   string `yaml:"name"`
				Port   int    `yaml:"port"`
				Target string `yaml:"targetPort"`
			} `yaml:"ports"`
		} `yaml:"spec"`
	}
	budget struct {
		head `yaml:",inline"`

		Spec struct {
			Unavailable int      `yaml:"maxUnavailable"`
			Selector    selector `yaml:"selector"`
		} `yaml:"spec"`
	}
	end struct {
		Pods       *selector `yaml:"podSelector"`
		Namespaces *selector `yaml:"namespaceSelector"`
	}
	flow struct {
		From  []end `yaml:"from"`
		To    []end `yaml:"to"`
		Ports []struct {
			Protocol string `yaml:"protocol"`
			Port     int    `yaml:"port"`
		} `yaml:"ports"`
	}
	policy struct {
		head `yaml:",inline"`

		Spec struct {
			Pods    selector `yaml:"podSelector"`
			Types   []string `yaml:"policyTypes"`
			Ingress []flow   `yaml:"ingress"`
			Egress  []flow   `yaml:"egress"`
		} `yaml:"spec"`
	}
	scalingRules struct {
		Window   int `yaml:"stabilizationWindowSeconds"`
		Policies []struct {
			Type   string `yaml:"type"`
			Value  int    `yaml:"value"`
			Period int    `yaml:"periodSeconds"`
		} `yaml:"policies"`
	}
	behavior struct {
		Up   scalingRules `yaml:"scaleUp"`
		Down scalingRules `yaml:"scaleDown"`
	}
	scaler struct {
		head `yaml:",inline"`

		Spec struct {
			Target  reference `yaml:"scaleTargetRef"`
			Min     int       `yaml:"minReplicas"`
			Max     int       `yaml:"maxReplicas"`
			Metrics []struct {
				Type string `yaml:"type"`
				Pods struct {
					Metric struct {
						Name string `yaml:"name"`
					} `yaml:"metric"`
					Target labels `yaml:"target"`
				} `yaml:"pods"`
				Resource struct {
					Name   string `yaml:"name"`
					Target struct {
						Type    string `yaml:"type"`
						Average int    `yaml:"averageUtilization"`
					} `yaml:"target"`
				} `yaml:"resource"`
			} `yaml:"metrics"`
			Behavior behavior `yaml:"behavior"`
		} `yaml:"spec"`
	}
	scaledObject struct {
		head `yaml:",inline"`

		Spec struct {
			Target   reference `yaml:"scaleTargetRef"`
			Min      int       `yaml:"minReplicaCount"`
			Max      int       `yaml:"maxReplicaCount"`
			Interval int       `yaml:"pollingInterval"`
			Advanced struct {
				HPA struct {
					Behavior behavior `yaml:"behavior"`
				} `yaml:"horizontalPodAutoscalerConfig"`
			} `yaml:"advanced"`
			Triggers []struct {
				Type           string    `yaml:"type"`
				MetricType     string    `yaml:"metricType"`
				Metadata       labels    `yaml:"metadata"`
				Authentication reference `yaml:"authenticationRef"`
			} `yaml:"triggers"`
		} `yaml:"spec"`
	}
	authentication struct {
		head `yaml:",inline"`

		Spec struct {
			Secrets []struct {
				Parameter string `yaml:"parameter"`
				Name      string `yaml:"name"`
				Key       string `yaml:"key"`
			} `yaml:"secretTargetRef"`
		} `yaml:"spec"`
	}
	account struct {
		head `yaml:",inline"`

		Token *bool `yaml:"automountServiceAccountToken"`
	}
	role struct {
		head `yaml:",inline"`

		Rules []struct {
			Groups    []string `yaml:"apiGroups"`
			Resources []string `yaml:"resources"`
			Verbs     []string `yaml:"verbs"`
		} `yaml:"rules"`
	}
	binding struct {
		head `yaml:",inline"`

		Role     reference   `yaml:"roleRef"`
		Subjects []reference `yaml:"subjects"`
	}
	warmPool struct {
		head `yaml:",inline"`

		Spec struct {
			Replicas int       `yaml:"replicas"`
			Template reference `yaml:"sandboxTemplateRef"`
		} `yaml:"spec"`
	}
	template struct {
		head `yaml:",inline"`

		Spec struct {
			Policies  string `yaml:"networkPolicyManagement"`
			Variables string `yaml:"envVarsInjectionPolicy"`
			Pod       pod    `yaml:"podTemplate"`
		} `yaml:"spec"`
	}
)

// group is a pod, and what makes it.
type group struct {
	head

	pod pod
}

// cluster is what an overlay brings into a cluster, by kind and name.
type cluster struct {
	groups     map[string]group // that make pods
	workloads  map[string]workload
	configMaps map[string]configMap
	services   map[string]service
	budgets    map[string]budget
	policies   map[string]policy
	scalers    map[string]scaler
	keda       map[string]scaledObject
	secrets    map[string]authentication
	accounts   map[string]account
	roles      map[string]role
	bindings   map[string]binding
	pools      map[string]warmPool
	templates  map[string]template
	namespaces map[string]head
}

func put[T any](t *testing.T, into *map[string]T, name string, content []byte) T {
	t.Helper()
	if *into == nil {
		*into = map[string]T{}
	}
	if _, twice := (*into)[name]; twice {
		t.Errorf("there are two of %s", name)
	}
	var one T
	strictly(t, content, &one)
	(*into)[name] = one
	return one
}

// load reads every object of a folder strictly.
func load(t *testing.T, folder string) cluster {
	t.Helper()
	var c cluster
	for _, o := range render(t, folder) {
		content, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		name, kind := text(o, "metadata", "name"), text(o, "apiVersion")+" "+text(o, "kind")
		switch kind {
		case "apps/v1 Deployment", "apps/v1 DaemonSet", "batch/v1 Job":
			w := put(t, &c.workloads, name, content)
			c.add(name, group{w.head, w.Spec.Template})
		case "extensions.agents.x-k8s.io/v1beta1 SandboxTemplate":
			s := put(t, &c.templates, name, content)
			c.add("template "+name, group{s.head, s.Spec.Pod})
		case "v1 ConfigMap":
			put(t, &c.configMaps, name, content)
		case "v1 Service":
			put(t, &c.services, name, content)
		case "policy/v1 PodDisruptionBudget":
			put(t, &c.budgets, name, content)
		case "networking.k8s.io/v1 NetworkPolicy":
			put(t, &c.policies, name, content)
		case "autoscaling/v2 HorizontalPodAutoscaler":
			put(t, &c.scalers, name, content)
		case "keda.sh/v1alpha1 ScaledObject":
			put(t, &c.keda, name, content)
		case "keda.sh/v1alpha1 TriggerAuthentication":
			put(t, &c.secrets, name, content)
		case "v1 ServiceAccount":
			put(t, &c.accounts, name, content)
		case "rbac.authorization.k8s.io/v1 Role":
			put(t, &c.roles, name, content)
		case "rbac.authorization.k8s.io/v1 RoleBinding":
			put(t, &c.bindings, name, content)
		case "extensions.agents.x-k8s.io/v1beta1 SandboxWarmPool":
			put(t, &c.pools, name, content)
		case "v1 Namespace":
			put(t, &c.namespaces, name, content)
		default:
			t.Errorf("%s: nobody knows %s", folder, kind)
		}
		if space := text(o, "metadata", "namespace"); !strings.HasPrefix(folder, "components/") && (space == "") != (kind == "v1 Namespace") {
			t.Errorf("%s %s is in the namespace %q", kind, name, space)
		}
	}
	return c
}

func (c *cluster) add(name string, g group) {
	if c.groups == nil {
		c.groups = map[string]group{}
	}
	c.groups[name] = g
}

// matches reports whether a selector selects what has some labels.
func matches(want, has labels) bool {
	for name, value := range want {
		if has[name] != value {
			return false
		}
	}
	return true
}

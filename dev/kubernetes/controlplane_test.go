//go:build kubernetes

package kubernetes_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/portico-run/portico/internal/testenv"
)

const (
	adminToken   = "admin"
	porticoToken = "portico"
	// The pods of Portico are this account's; it may do what a Role says.
	porticoAccount = "system:serviceaccount:portico:portico"
)

// controlPlane is a cluster without nodes.
type controlPlane struct {
	t          *testing.T
	programs   string // the folder of tools/kubernetes.sh
	state      string
	url        string
	kubeconfig string // of its administrator
	admin      dynamic.Interface
}

// startControlPlane starts a cluster, which ends with the test.
func startControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	begun := time.Now()
	p := &controlPlane{t: t, state: t.TempDir(), programs: testenv.Need(t, "PORTICO_KUBERNETES", "tools/kubernetes.sh builds it")}
	p.startAPIServer(p.startEtcd())
	p.kubeconfig = p.configure(adminToken)
	p.admin = p.client(adminToken)
	p.installAgentSandbox()
	t.Logf("the control plane is ready after %v", time.Since(begun).Round(100*time.Millisecond))
	return p
}

// run starts a program of the control plane. What it says is shown if the test fails.
func (p *controlPlane) run(name string, args ...string) {
	p.t.Helper()
	log := filepath.Join(p.state, name+".log")
	output, err := os.Create(log)
	require.NoError(p.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, filepath.Join(p.programs, name), args...)
	c.Stdout, c.Stderr, c.WaitDelay = output, output, 10*time.Second
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	require.NoError(p.t, c.Start())
	p.t.Cleanup(func() {
		cancel()
		_ = c.Wait()
		_ = output.Close()
		if text, err := os.ReadFile(log); err == nil && p.t.Failed() {
			p.t.Logf("%s:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
}

func (p *controlPlane) startEtcd() (url string) {
	p.t.Helper()
	url = "http://" + testenv.FreeAddress(p.t)
	peers := "http://" + testenv.FreeAddress(p.t)
	p.run("etcd", "--data-dir="+filepath.Join(p.state, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers)
	p.answers(url+"/health", "")
	return url
}

func (p *controlPlane) startAPIServer(etcd string) {
	p.t.Helper()
	address := testenv.FreeAddress(p.t)
	host, port, err := net.SplitHostPort(address)
	require.NoError(p.t, err)
	p.url = "https://" + address
	tokens := filepath.Join(p.state, "tokens")
	require.NoError(p.t, os.WriteFile(tokens, fmt.Appendf(nil, "%s,admin,1,system:masters\n%s,%s,2\n", adminToken, porticoToken, porticoAccount), 0o600))
	key := filepath.Join(p.state, "accounts.key")
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}), 0o600))
	p.run("kube-apiserver", "--etcd-servers="+etcd, "--cert-dir="+filepath.Join(p.state, "certificates"),
		"--bind-address="+host, "--secure-port="+port, "--advertise-address=10.9.0.1",
		"--token-auth-file="+tokens, "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://test", "--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		// Accounts are made by another controller than there is here.
		"--disable-admission-plugins=ServiceAccount")
	p.answers(p.url+"/readyz", adminToken)
}

// answers waits until a server is ready.
func (p *controlPlane) answers(url, token string) {
	p.t.Helper()
	client, err := rest.HTTPClientFor(&rest.Config{BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	require.NoError(p.t, err)
	require.Eventually(p.t, func() bool {
		r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		answer, err := client.Do(r)
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	}, 2*time.Minute, 100*time.Millisecond, url)
}

// configure writes a kubeconfig and returns its path.
func (p *controlPlane) configure(token string) string {
	p.t.Helper()
	path := filepath.Join(p.state, "kubeconfig-"+token)
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []any{map[string]any{"name": "test", "cluster": map[string]any{"server": p.url, "insecure-skip-tls-verify": true}}},
		"users":    []any{map[string]any{"name": "test", "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": "test", "context": map[string]any{"cluster": "test", "user": "test"}}},
	})
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(path, text, 0o600))
	return path
}

func (p *controlPlane) client(token string) dynamic.Interface {
	p.t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: p.url, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 100, Burst: 200})
	require.NoError(p.t, err)
	return client
}

// kubectl runs kubectl as the cluster's administrator.
func (p *controlPlane) kubectl(input string, args ...string) (string, error) {
	c := exec.CommandContext(p.t.Context(), filepath.Join(p.programs, "kubectl"), append([]string{"--kubeconfig=" + p.kubeconfig}, args...)...)
	c.Stdin = bytes.NewBufferString(input)
	output, err := c.CombinedOutput()
	return string(output), err
}

// apply applies objects, as YAML.
func (p *controlPlane) apply(objects string) {
	p.t.Helper()
	output, err := p.kubectl(objects, "apply", "--server-side", "-f", "-")
	require.NoError(p.t, err, output)
}

// installAgentSandbox serves its newer version of resources alone: to convert to the
// older one, the API server would ask the controller by a Service.
func (p *controlPlane) installAgentSandbox() {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.programs, "crds", "*.yaml"))
	require.NoError(p.t, err)
	require.Len(p.t, files, 4)
	var all bytes.Buffer
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(p.t, err)
		var definition struct {
			APIVersion string         `yaml:"apiVersion"`
			Kind       string         `yaml:"kind"`
			Metadata   map[string]any `yaml:"metadata"`
			Spec       map[string]any `yaml:"spec"`
		}
		require.NoError(p.t, yaml.Unmarshal(text, &definition))
		definition.Spec["conversion"] = map[string]any{"strategy": "None"}
		versions, _ := definition.Spec["versions"].([]any)
		require.NotEmpty(p.t, versions)
		definition.Spec["versions"] = versions[:1]
		text, err = yaml.Marshal(definition)
		require.NoError(p.t, err)
		all.WriteString("---\n")
		all.Write(text)
	}
	p.apply(all.String())
	output, err := p.kubectl("", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	require.NoError(p.t, err, output)
	p.run("agent-sandbox-controller", "--kubeconfig="+p.kubeconfig, "--extensions", "--enable-webhook=false", "--leader-elect=false",
		"--metrics-bind-address=0", "--health-probe-bind-address=0")
}

package agentsandbox

import (
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Requests to the API server a second, for all owners, and how many of them at once.
// Each owner needs a few to begin, and one every few minutes.
const (
	requestsPerSecond = 50
	requestsAtOnce    = 100
)

// Connect returns the cluster that this process runs in, or the one that a kubeconfig
// leads to, for development. It asks the cluster nothing.
func Connect(kubeconfig string) (dynamic.Interface, error) {
	config, err := rest.InClusterConfig()
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("the cluster of the sandbox nodes is not known: %w; run Portico in a pod with a service account, or set SANDBOX_CLAIM_KUBECONFIG", err)
	}
	config.QPS, config.Burst = requestsPerSecond, requestsAtOnce
	config.UserAgent = "portico"
	return dynamic.NewForConfig(config)
}

// Package kubernetes tries Portico with the control plane of Kubernetes: etcd, the API
// server and the controller of agent-sandbox, all real, and a small kubelet of its own
// that starts a process where the real one would start a container. Its tests need
// programs that take half an hour to build, and run with: make test-k8s
package kubernetes

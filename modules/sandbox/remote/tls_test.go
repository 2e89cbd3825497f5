package remote_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/peer"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/remote"
	"github.com/portico-run/portico/modules/sandbox/remote/machine"
)

// authority makes an authority, and what one member of it is configured with.
func authority(t *testing.T) *tls.Config {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, body []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: body}), 0o600))
		return path
	}
	make := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		if signer == nil {
			signer = private
		}
		made, err := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), signer)
		require.NoError(t, err)
		return private, made
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	rootKey, rootBytes := make(root, root, nil)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	leafKey, leafBytes := make(leaf, root, rootKey)
	keyBytes, err := x509.MarshalPKCS8PrivateKey(leafKey)
	require.NoError(t, err)
	c, err := peer.TLS("SANDBOX_NODE_TLS", write("cert", "CERTIFICATE", leafBytes), write("key", "PRIVATE KEY", keyBytes), write("ca", "CERTIFICATE", rootBytes))
	require.NoError(t, err)
	return c
}

// With certificates, servers and nodes know each other by them, besides the token; who
// only looks whether the node lives needs none.
func TestNodesAndServersShowCertificates(t *testing.T) {
	t.Parallel()
	ours, theirs := authority(t), authority(t)
	private, public := key(t)
	m := settle(t, says("ran"), func(d *machine.Deps) { d.TLS, d.Trust.Keys = ours, []ed25519.PublicKey{public} })
	for name, c := range map[string]struct {
		tls  *tls.Config
		runs bool
	}{
		"ours":   {ours, true},
		"theirs": {theirs, false},
		"none":   {&tls.Config{InsecureSkipVerify: true}, false},
		"plain":  {nil, false},
	} {
		client := remote.NewClient(remote.ClientConfig{Keys: pair(private), TLS: c.tls})
		d := remote.New(remote.Deps{Nodes: &fixed{node: remote.Node{Address: m.Addr().String(), Nonce: m.Nonce()}}, Client: client, Logger: quiet()})
		require.NoError(t, d.Open(t.Context()))
		r, err := try(t, d, "u")
		require.NoError(t, d.Close())
		if !c.runs {
			require.ErrorIs(t, err, sandbox.ErrCapsuleGone, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, "ran", r.Stdout)
	}
	looks := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer looks.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+m.Addr().String()+"/healthz", nil)
	require.NoError(t, err)
	answer, err := looks.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
}

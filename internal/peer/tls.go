package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLS reads the files by which processes know each other, which are named by variables
// that begin with name: each shows a certificate of
// one authority, which issues them for nobody else. The names in them do not count,
// because processes come and go with their addresses: a token says which one is meant.
func TLS(name, certificate, key, authority string) (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("the certificate of %s_CERT and %s_KEY: %w", name, name, err)
	}
	text, err := os.ReadFile(authority)
	if err != nil {
		return nil, fmt.Errorf("the certificate of %s_CA: %w", name, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New(name + "_CA holds no certificate")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		// The usual check wants a name; this one is the rest of it.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it
		VerifyConnection:   func(c tls.ConnectionState) error { return verify(c, pool) },
	}, nil
}

func verify(c tls.ConnectionState, pool *x509.CertPool) error {
	if len(c.PeerCertificates) == 0 {
		return errors.New("the peer shows no certificate")
	}
	between := x509.NewCertPool()
	for _, more := range c.PeerCertificates[1:] {
		between.AddCert(more)
	}
	_, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}

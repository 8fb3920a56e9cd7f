package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func newTestPKI(t *testing.T) (dir string, pki *credentials) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "pki")
	pki, err := ensurePKI(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, pki
}

func readCertificate(t *testing.T, pair keyPair) *x509.Certificate {
	t.Helper()
	loaded, err := tls.LoadX509KeyPair(pair.cert, pair.key)
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Leaf
}

func TestAuthoritySignsServerAndAdministrator(t *testing.T) {
	_, pki := newTestPKI(t)
	roots := x509.NewCertPool()
	roots.AddCert(readCertificate(t, pki.ca))

	server := readCertificate(t, pki.server)
	if _, err := server.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"}); err != nil {
		t.Errorf("the server's certificate: %v", err)
	}
	admin := readCertificate(t, pki.admin)
	if _, err := admin.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("the administrator's certificate: %v", err)
	}
	if groups := admin.Subject.Organization; len(groups) != 1 || groups[0] != "system:masters" {
		t.Errorf("the administrator's groups are %q", groups)
	}
}

func TestLaterStartKeepsTheCertificates(t *testing.T) {
	dir, pki := newTestPKI(t)
	before := readCertificate(t, pki.ca)
	again, err := ensurePKI(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !readCertificate(t, again.ca).Equal(before) {
		t.Error("the authority is another one")
	}
}

func TestInterruptedStartIsRepaired(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if err := os.MkdirAll(filepath.Join(dir+".new", "left-over"), 0o700); err != nil {
		t.Fatal(err)
	}
	pki, err := ensurePKI(dir)
	if err != nil {
		t.Fatal(err)
	}
	readCertificate(t, pki.server)
}

func TestKubeconfigNeedsNoOtherFile(t *testing.T) {
	dir, pki := newTestPKI(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := writeKubeconfig(path, "https://127.0.0.1:6443", pki); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://127.0.0.1:6443" || len(cfg.CAData) == 0 || len(cfg.CertData) == 0 || len(cfg.KeyData) == 0 {
		t.Errorf("the kubeconfig is incomplete: host %q", cfg.Host)
	}
}

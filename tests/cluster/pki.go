package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// validity is longer than any test, and longer than any such cluster lives.
const validity = 365 * 24 * time.Hour

// credentials are the paths of PEM files.
type credentials struct {
	ca, server, admin keyPair
	serviceAccountKey string
}

type keyPair struct{ cert, key string }

func credentialsIn(dir string) *credentials {
	pair := func(name string) keyPair {
		return keyPair{cert: filepath.Join(dir, name+".crt"), key: filepath.Join(dir, name+".key")}
	}
	return &credentials{
		ca:                pair("ca"),
		server:            pair("apiserver"),
		admin:             pair("admin"),
		serviceAccountKey: filepath.Join(dir, "service-account.key"),
	}
}

// ensurePKI creates a certificate authority, the certificates of the server and the administrator, and the key that
// signs service account tokens, unless dir has them from an earlier start. It creates dir completely or not at all.
func ensurePKI(dir string) (*credentials, error) {
	_, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		err = createPKI(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare certificates: %w", err)
	}
	return credentialsIn(dir), nil
}

func createPKI(dir string) error {
	unfinished := dir + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return err
	}
	files := credentialsIn(unfinished)
	ca, err := newAuthority(files.ca)
	if err != nil {
		return err
	}
	err = ca.issue(files.server, &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost", "kubernetes.default.svc"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	if err != nil {
		return err
	}
	err = ca.issue(files.admin, &x509.Certificate{
		SerialNumber: big.NewInt(3),
		Subject:      pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	if _, err := newKey(files.serviceAccountKey); err != nil {
		return err
	}
	return os.Rename(unfinished, dir)
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(files keyPair) (*authority, error) {
	key, err := newKey(files.key)
	if err != nil {
		return nil, err
	}
	ca := &authority{key: key, cert: &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "windlass-test-cluster"},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}}
	return ca, ca.sign(files.cert, ca.cert, key.Public())
}

// issue creates a key and a certificate for it.
func (a *authority) issue(files keyPair, template *x509.Certificate) error {
	key, err := newKey(files.key)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	return a.sign(files.cert, template, key.Public())
}

func (a *authority) sign(path string, template *x509.Certificate, public crypto.PublicKey) error {
	now := time.Now()
	template.NotBefore = now.Add(-time.Hour) // for clocks that disagree
	template.NotAfter = now.Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return fmt.Errorf("sign a certificate for %s: %w", template.Subject.CommonName, err)
	}
	return writePEM(path, "CERTIFICATE", der)
}

func newKey(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, blockType string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: der}), 0o600)
}

// writeKubeconfig writes the administrator's kubeconfig, which refers to no other file.
func writeKubeconfig(path, server string, pki *credentials) error {
	const name = "windlass-test-cluster"
	cfg := clientcmdapi.NewConfig()
	cluster := clientcmdapi.NewCluster()
	cluster.Server = server
	cluster.CertificateAuthority = pki.ca.cert
	user := clientcmdapi.NewAuthInfo()
	user.ClientCertificate, user.ClientKey = pki.admin.cert, pki.admin.key
	current := clientcmdapi.NewContext()
	current.Cluster, current.AuthInfo = name, "admin"
	cfg.Clusters[name], cfg.AuthInfos["admin"], cfg.Contexts[name] = cluster, user, current
	cfg.CurrentContext = name
	if err := clientcmdapi.FlattenConfig(cfg); err != nil {
		return fmt.Errorf("embed the certificates in the kubeconfig: %w", err)
	}
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}

package rest

import "testing"

func TestACopyIsIndependent(t *testing.T) {
	config := &Config{
		BearerToken:     "secret",
		Impersonate:     ImpersonationConfig{Groups: []string{"a"}, Extra: map[string][]string{"k": {"v"}}},
		TLSClientConfig: TLSClientConfig{CertData: []byte("c")},
	}
	copied := CopyConfig(config)
	copied.Impersonate.Groups[0], copied.Impersonate.Extra["k"][0], copied.CertData[0] = "x", "x", 'x'
	if config.Impersonate.Groups[0] != "a" || config.Impersonate.Extra["k"][0] != "v" || config.CertData[0] != 'c' {
		t.Errorf("the original has changed: %#v", config.Impersonate)
	}
}

func TestCredentialsAreNotPrintedOrKept(t *testing.T) {
	config := &Config{Host: "api", BearerToken: "secret", TLSClientConfig: TLSClientConfig{KeyData: []byte("k")}}
	if text := config.String(); text != "rest.Config{Host: api}" {
		t.Error(text)
	}
	anonymous := AnonymousClientConfig(config)
	if anonymous.Host != "api" || anonymous.BearerToken != "" || anonymous.KeyData != nil {
		t.Errorf("%v has credentials", anonymous)
	}
}

module windlass.dev/tests/operators-go/kubebuilder

go 1.26.0

require sigs.k8s.io/kubebuilder/v4 v4.16.0

# shellcheck shell=bash disable=SC2034
# The project that kubebuilder tests its plugin deploy-image with: two controllers with finalizers, events and
# conditions, for the kinds Memcached and Busybox.
program=./cmd
replaced=cmd
suite=./internal/controller

fetch() {
    local kubebuilder
    kubebuilder=$(kubebuilder)/kubebuilder
    mkdir "$1"
    (
        cd "$1"
        "$kubebuilder" init --domain testproject.org --repo sigs.k8s.io/kubebuilder/testdata/project-v4-with-plugins
        "$kubebuilder" create api --group example.com --version v1alpha1 --kind Memcached --plugins deploy-image/v1-alpha \
            --image memcached:1.6.26-alpine3.19 --image-container-command memcached,--memory-limit=64,-o,modern,-v \
            --image-container-port 11211 --run-as-user 1001 --make=false
        "$kubebuilder" create api --group example.com --version v1alpha1 --kind Busybox --plugins deploy-image/v1-alpha \
            --image busybox:1.36.1 --make=false
        make generate manifests
    )
    # The generator has installed controller-gen in this folder.
    rm -rf "$1/bin"
}

edit_plugin() { :; }

# The suite has no manager: it calls each reconciler twice. Without these calls, the suite waits for the changes that
# they would have made.
edit_suite() {
    local kind file
    for kind in memcached busybox; do
        file=internal/controller/${kind}_controller_test.go
        replace "$file" "^\t\t\t${kind}Reconciler := .*?^\t\t\tExpect\(err\)\.NotTo\(HaveOccurred\(\)\)\n" ''
        replace "$file" "^\t\t\t_, err = ${kind}Reconciler\.Reconcile.*?^\t\t\tExpect\(err\)\.NotTo\(HaveOccurred\(\)\)\n" "\
			Eventually(func(g Gomega) {
				g.Expect(k8sClient.Get(ctx, typeNamespacedName, $kind)).To(Succeed())
				g.Expect($kind.Status.Conditions).To(ContainElement(HaveField(\"Status\", Equal(metav1.ConditionTrue))))
			}).Should(Succeed())
"
        replace "$file" '^\t"sigs\.k8s\.io/controller-runtime/pkg/reconcile"\n' ''
    done
}

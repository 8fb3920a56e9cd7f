# shellcheck shell=bash disable=SC2034
# KubeRay: three controllers. A RayCluster has the shape of a database: a head, workers, services, roles, and a clean-up
# behind a finalizer.
program=.
replaced=main.go
suite=./controllers/ray

fetch() {
    local source
    source=$(cd tests/operators-go/ray && "$root/tools/go" mod download -json github.com/ray-project/kuberay/ray-operator |
        sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
    cp -R "$source" "$1"
    chmod -R u+w "$1"
}

edit_plugin() {
    without_batch_schedulers
    without_discovery
    with_own_feature_gates
}

# These schedulers are optional. Their packages import Kubernetes' API server.
without_batch_schedulers() {
    local file=controllers/ray/batchscheduler/schedulermanager.go
    replace $file '^\tkaischeduler .*?^\t"[^"]*/yunikorn"\n' ''
    replace $file '^\t\tswitch rayConfigs\.BatchScheduler \{.*?^\t\tdefault:\n\t\t\t(.*?)\n\t\t\}\n' $'\t\treturn nil, fmt.Errorf("a plugin has no scheduler %s", rayConfigs.BatchScheduler)\n'
    replace $file '^\tif rayConfigs\.EnableBatchScheduler \{.*?^\t\}\n' ''
    file=apis/config/v1alpha1/config_utils.go
    replace $file '^\tkaischeduler .*?^\t"[^"]*/yunikorn"\n' ''
    replace $file '^\t\t// if a customized scheduler .*?^\t\t\}\n' $'\t\treturn fmt.Errorf("a plugin has no scheduler %s", config.BatchScheduler)\n'
}

# The plugin cannot ask which API groups exist. The patch lets it assume Kubernetes, not OpenShift.
without_discovery() {
    local file=controllers/ray/utils/util.go
    replace $file '^\t// The discovery package is used .*?^\tfor _, group := range apiGroupList.*?^\t\}\n' ''
    replace $file '^\t"k8s\.io/client-go/discovery"\n' ''
    # The operator would need its own connection to use the API server's proxy.
    replace $file '^\t\tif useKubernetesProxy \{\n\t\t\tvar err error.*?return dashboardClient, nil\n\t\t\}\n\n' ''
    replace $file '^\t\tif useKubernetesProxy \{\n\t\t\treturn &RayHttpProxyClient.*?^\t\t\}\n' ''
}

# The feature-gate package of Kubernetes' API server would also import metrics and flags, so this small one replaces it.
with_own_feature_gates() {
    local file=pkg/features/features.go
    replace $file '^\tutilfeature "k8s\.io/apiserver/pkg/util/feature"\n' ''
    replace $file '^\tfeaturegatetesting .*?\n' ''
    replace $file '^\t"testing"\n\n' ''
    replace $file '^// SetFeatureGateDuringTest .*?^\}\n' ''
    replace $file 'runtime\.Must\(utilfeature\.DefaultMutableFeatureGate\.Add' 'runtime.Must(gate.Add'
    replace $file '^var defaultFeatureGates = ' $'var gate = featuregate.NewFeatureGate()\n\nvar defaultFeatureGates = '
    replace $file 'return utilfeature\.DefaultFeatureGate\.Enabled' 'return gate.Enabled'
    replace $file 'range utilfeature\.DefaultMutableFeatureGate' 'range gate'
}

edit_suite() {
    local file=controllers/ray/suite_test.go
    replace $file '^\t// The RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV is .*?^\t\}\(\)\n' "\
	fakeRayDashboardClient = prepareFakeRayDashboardClient()
	fakeRayHttpProxyClient = &utils.FakeRayHttpProxyClient{}
"
    replace $file '^\tctrl "sigs\.k8s\.io/controller-runtime"\n' ''
    replace $file '^\tmetricsserver .*?\n' ''
    replace $file '^\tcorev1 .*?\n' ''
    replace $file '^\t"os"\n' ''
}

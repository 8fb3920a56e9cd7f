# shellcheck shell=bash disable=SC2034
# The CronJob operator of kubebuilder's book: one controller that owns Jobs, and finds them by an index.
program=./cmd
replaced=cmd
suite=./internal/controller

fetch() {
    local programs
    programs=$(kubebuilder)
    "$programs/generate" "$programs/kubebuilder" "$1"
    # The generator has installed controller-gen in this folder.
    rm -rf "$1/bin"
}

edit_plugin() { :; }

# Removes the manager from the suite's set-up.
edit_suite() {
    replace internal/controller/suite_test.go '^\tk8sManager, err := ctrl\.NewManager.*?^\t\}\(\)\n' ''
    replace internal/controller/suite_test.go '^\tctrl "sigs\.k8s\.io/controller-runtime"\n' ''
}

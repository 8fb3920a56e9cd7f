package scheme

import "k8s.io/apimachinery/pkg/runtime"

// groups adds the API groups that the program imports. `windlass build` replaces this file: it lists the packages of
// k8s.io/api that the plugin and its dependencies import.
var groups = runtime.SchemeBuilder{}

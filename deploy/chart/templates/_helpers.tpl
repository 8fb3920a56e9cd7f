{{- define "windlass.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "windlass.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "windlass.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "windlass.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The installation's name, which the names of its leases contain: up to 30 lower-case letters, digits and dashes. It depends
only on the release's name. Otherwise an override that renames the Deployment would also rename the leases, and the old and
the new Pods would both run all plugins. */}}
{{- define "windlass.instance" -}}
{{- $name := .Release.Name | replace "." "-" -}}
{{- if .Values.leases.instance -}}
{{- .Values.leases.instance -}}
{{- else if gt (len $name) 30 -}}
{{- printf "%s-%s" ($name | trunc 21 | trimSuffix "-") (sha256sum .Release.Name | trunc 8) -}}
{{- else -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{/* The name of cluster-scoped objects. It differs between two releases. */}}
{{- define "windlass.clusterName" -}}
{{- printf "%s-%s" (include "windlass.fullname" .) (printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 8) -}}
{{- end -}}

{{/* Helm reads numbers of a values file as floats, and would write a large one as 1e+06. */}}
{{- define "windlass.number" -}}
{{- if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end -}}

{{- define "windlass.selector" -}}
app.kubernetes.io/name: {{ include "windlass.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "windlass.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "windlass.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "windlass.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "windlass.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: name the account, as serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "windlass.image" -}}
{{- if .Values.image.digest -}}
{{ required "image.repository: name the image, which tools/image makes" .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ required "image.repository: name the image, which tools/image makes" .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* A volume with several ConfigMaps as one directory. They may be created after the Pod. */}}
{{- define "windlass.configMaps" -}}
projected:
  sources:
    {{- range . }}
    - configMap:
        name: {{ . | quote }}
        optional: true
    {{- end }}
{{- end -}}

{{/* The fields of the ceiling as YAML; empty if there is no ceiling. */}}
{{- define "windlass.ceiling" -}}
{{- $ceiling := deepCopy .Values.ceiling -}}
{{- if gt (len .Values.watchNamespaces) 1 -}}
{{- if not (hasKey $ceiling "rules") -}}
{{- $rule := dict "apiGroups" (list "*") "resources" (list "*") "verbs" (list "*") -}}
{{- $_ := set $ceiling "rules" (list $rule) -}}
{{- end -}}
{{- if not (hasKey $ceiling "finalizers") -}}
{{- $_ := set $ceiling "finalizers" (list "*") -}}
{{- end -}}
{{- range $ceiling.rules -}}
{{- if not (or .namespaces .cluster) -}}
{{- $_ := set . "namespaces" $.Values.watchNamespaces -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $ceiling -}}
{{- toYaml (merge (dict "apiVersion" "windlass.dev/v1alpha1" "kind" "PluginCeiling") $ceiling) -}}
{{- end -}}
{{- end -}}

{{- define "windlass.binding" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "windlass.serviceAccountName" . | quote }}
    namespace: {{ .Release.Namespace | quote }}
{{- end -}}

{{/* Whether the admin address speaks HTTPS; empty if not. */}}
{{- define "windlass.https" -}}
{{- if or (eq .Values.admin.auth "token") .Values.admin.tls.secretName -}}
true
{{- end -}}
{{- end -}}

{{/* The Secret with the certificate of the address of hooks; empty if that address is off or speaks plain HTTP. */}}
{{- define "windlass.hooksSecret" -}}
{{- if and .Values.hooks.enabled (not .Values.hooks.plainHttp) -}}
{{- required "hooks.tls.secretName: name a Secret with a certificate, or set hooks.plainHttp if a proxy in front of the host ends TLS" .Values.hooks.tls.secretName -}}
{{- end -}}
{{- end -}}

{{/* How Prometheus gets the metrics: the part of an endpoint that is the same for both kinds of monitors. */}}
{{- define "windlass.scrape" -}}
port: admin
path: /metrics
{{- if include "windlass.https" . }}
scheme: https
tlsConfig:
  {{- if .Values.metrics.tlsConfig }}
  {{- toYaml .Values.metrics.tlsConfig | nindent 2 }}
  {{- else if .Values.admin.tls.secretName }}
  ca: {secret: {name: {{ .Values.admin.tls.secretName | quote }}, key: ca.crt}}
  serverName: {{ include "windlass.fullname" . }}.{{ .Release.Namespace }}.svc
  {{- else }}
  insecureSkipVerify: true
  {{- end }}
{{- end }}
{{- if and (eq .Values.admin.auth "token") .Values.metrics.tokenSecret.name }}
authorization:
  credentials: {name: {{ .Values.metrics.tokenSecret.name | quote }}, key: {{ .Values.metrics.tokenSecret.key | quote }}}
{{- end }}
{{- end -}}

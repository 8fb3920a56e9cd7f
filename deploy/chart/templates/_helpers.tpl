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

{{- define "windlass.selector" -}}
app.kubernetes.io/name: {{ include "windlass.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
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
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* Several ConfigMaps as one directory. They may come after the Pod. */}}
{{- define "windlass.configMaps" -}}
projected:
  sources:
    {{- range . }}
    - configMap:
        name: {{ . }}
        optional: true
    {{- end }}
{{- end -}}

{{/* The ceiling, as it is written; empty if there is none. */}}
{{- define "windlass.ceiling" -}}
{{- $ceiling := deepCopy .Values.ceiling -}}
{{- if and (gt (len .Values.watchNamespaces) 1) (not $ceiling.rules) -}}
{{- $rule := dict "apiGroups" (list "*") "resources" (list "*") "verbs" (list "*") "namespaces" .Values.watchNamespaces -}}
{{- $_ := set $ceiling "rules" (list $rule) -}}
{{- end -}}
{{- if $ceiling -}}
{{- toYaml (merge (dict "apiVersion" "windlass.dev/v1alpha1" "kind" "PluginCeiling") $ceiling) -}}
{{- end -}}
{{- end -}}

{{- define "windlass.binding" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "windlass.serviceAccountName" . }}
    namespace: {{ .Release.Namespace }}
{{- end -}}

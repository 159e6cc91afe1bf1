{{/* Prefix of object names: the same for every release, so that documentation and alerts apply. */}}
{{- define "kubevirt-operator.fullname" -}}
{{- default "kubevirt-operator" .Values.fullnameOverride | trunc 42 | trimSuffix "-" -}}
{{- end -}}

{{- define "kubevirt-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "kubevirt-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "kubevirt-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Labels that select the pods of the Machine operator. They contain no value, because a Deployment's
selector is immutable. */}}
{{- define "kubevirt-operator.selectorLabels" -}}
app.kubernetes.io/name: kubevirt-operator
app.kubernetes.io/component: controller-manager
{{- end -}}

{{- define "kubevirt-operator.managerLabels" -}}
{{ include "kubevirt-operator.labels" . }}
app.kubernetes.io/component: controller-manager
{{- end -}}

{{- define "kubevirt-operator.virtOperatorLabels" -}}
{{ include "kubevirt-operator.labels" . }}
app.kubernetes.io/component: virt-operator
kubevirt.io: virt-operator
{{- end -}}

{{- define "kubevirt-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (printf "%s-controller-manager" (include "kubevirt-operator.fullname" .)) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Subjects of role bindings. */}}
{{- define "kubevirt-operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "kubevirt-operator.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* Image reference; argument: (list image chart). */}}
{{- define "kubevirt-operator.image" -}}
{{- $image := index . 0 -}}
{{- $chart := index . 1 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default $chart.Version $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Rules of a role; argument: (list context file kind). files/ are copies of config/, so that the rights are
those that the operator is tested with. */}}
{{- define "kubevirt-operator.rules" -}}
{{- $file := (index . 0).Files.Get (index . 1) -}}
{{- $kind := index . 2 -}}
{{- range splitList "\n---\n" $file -}}
{{- $object := fromYaml . -}}
{{- if eq $object.kind $kind -}}
{{- toYaml $object.rules -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Scrape endpoint; argument: metrics.serviceMonitor. */}}
{{- define "kubevirt-operator.endpoint" -}}
port: metrics
path: /metrics
interval: {{ .interval }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with .relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What things are called. The release's name is enough for all of it: `steelyard` gives `steelyard-operator`. */}}
{{- define "steelyard.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "steelyard.operator" -}}{{ include "steelyard.fullname" . }}-operator{{- end -}}

{{- define "steelyard.prometheus" -}}{{ include "steelyard.fullname" . }}-prometheus{{- end -}}

{{/* Labels by which the release finds its own pods; they never change. Takes a list: the root, the component. */}}
{{- define "steelyard.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of every object. Takes a list: the root, the component and, for some, labels that go before the common ones. */}}
{{- define "steelyard.labels" -}}
{{- $root := index . 0 -}}
{{- $own := append (slice . 2) (dict) | first -}}
{{ include "steelyard.selector" . }}
app.kubernetes.io/part-of: steelyard
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version | replace "+" "_" }}
{{- with merge (dict) $own $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* An image: what images.NAME says, else the registry's image of the tag. Takes a list: the root, NAME. */}}
{{- define "steelyard.image" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $image := $root.Values.image -}}
{{- get $root.Values.images $name | default (printf "%s/%s:%s" $image.registry $name ($image.tag | default $root.Chart.AppVersion)) -}}
{{- end -}}

{{/* Where the workers' metrics are read. */}}
{{- define "steelyard.prometheusUrl" -}}
{{- if .Values.prometheus.bundled.enabled -}}
http://{{ include "steelyard.prometheus" . }}.{{ .Release.Namespace }}:9090
{{- else -}}
{{ .Values.prometheus.url | trimSuffix "/" }}
{{- end -}}
{{- end -}}

{{/* The port of that address, for the NetworkPolicy. */}}
{{- define "steelyard.prometheusPort" -}}
{{- $url := urlParse (include "steelyard.prometheusUrl" .) -}}
{{- regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "443" "80" (eq $url.scheme "https")) -}}
{{- end -}}

{{/* The Secret with what that Prometheus asks for, or nothing. */}}
{{- define "steelyard.prometheusSecret" -}}
{{- if not .Values.prometheus.bundled.enabled }}{{ .Values.prometheus.secret }}{{ end -}}
{{- end -}}

{{- define "steelyard.secretFolder" -}}/etc/steelyard/prometheus{{- end -}}

{{/* "true" when a kind of the Prometheus Operator is wanted and the cluster has it. Takes a list: the root, the value, KIND. */}}
{{- define "steelyard.monitors" -}}
{{- $root := index . 0 -}}
{{- if and (index . 1).enabled ($root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" (index . 2))) -}}true{{- end -}}
{{- end -}}

{{/* What the schema could refuse, but not in words that help. */}}
{{- define "steelyard.refused" -}}
{{- $labels := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels "monitoring.labels" .Values.monitoring.labels "monitoring.dashboards.labels" .Values.monitoring.dashboards.labels }}
{{- range $value, $of := $labels }}
{{- range $label, $_ := $of }}
{{- if regexMatch "^(app\\.kubernetes\\.io|helm\\.sh)/" $label }}
{{- fail (printf "%s: %q: labels of app.kubernetes.io and helm.sh are the chart's own" $value $label) }}
{{- end }}
{{- end }}
{{- end }}
{{- $images := dict "image.tag" (printf ":%s" .Values.image.tag) "prometheus.bundled.image" .Values.prometheus.bundled.image }}
{{- range $name, $image := .Values.images }}
{{- $_ := set $images (printf "images.%s" $name) $image }}
{{- end }}
{{- range $value, $image := $images }}
{{- if hasSuffix ":latest" $image }}
{{- fail (printf "%s: %q: the tag latest moves; name a version or a digest" $value (trimPrefix ":" $image)) }}
{{- end }}
{{- end }}
{{- end -}}
